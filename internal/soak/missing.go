package main

// missing is what an experiment needs and this machine has not.
type missing string

func (m missing) Error() string { return string(m) }
