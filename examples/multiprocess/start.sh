#!/usr/bin/env bash
# Appends a line to the ledger: when it was started, by which process, for which
# attempt of which job. One write of a short line is never mixed with another.
echo "${EPOCHREALTIME/,/.} $SERVER $WEIR_JOB_ID $WEIR_ATTEMPT" >>"$LEDGER"
sleep 0.2 # as if somebody were asked, so that a kill finds jobs at work
