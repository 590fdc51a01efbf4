#!/bin/sh
# One leg of `make test`, beside others: its output goes to .test-NAME.log. At its end all that failed is
# shown, or how it ended.
log=".test-$1.log"
name=$1
shift
"$@" > "$log" 2>&1
status=$?
echo
echo "==> $name: exit code $status, all of it in $log"
if [ $status -ne 0 ] && grep -qE '^=+ (ERRORS|FAILURES) =+$' "$log"; then
  sed -nE '/^=+ (ERRORS|FAILURES) =+$/,$p' "$log"
else
  tail -n 40 "$log"
fi
exit $status
