#!/bin/sh
# An exit status other than 0 fails the attempt; the end of standard error is
# kept with the job.
args=$(cat)
case $args in
*'"fail": true'*)
  echo "the other side said: 503 Service Unavailable" >&2
  exit 1
  ;;
esac
echo "called with $args"
