#!/bin/sh
# The job's arguments are on standard input, the rest is in the environment.
# What is printed is shown by: weir serve --log-level debug
args=$(cat)
sleep 0.1 # as if a mail server were asked
echo "sent $args (job $WEIR_JOB_ID, attempt $WEIR_ATTEMPT)"
