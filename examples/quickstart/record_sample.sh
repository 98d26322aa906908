#!/bin/sh
echo "$WEIR_TASK: $(cat)"
