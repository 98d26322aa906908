package queue_test

import "sync"

// together runs do for 0 to n-1 at the same time.
func together(n int, do func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			do(i)
		})
	}
	close(begin)
	wg.Wait()
}
