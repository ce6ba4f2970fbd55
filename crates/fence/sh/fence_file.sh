#!/bin/sh
# Reads and replaces a file on a local disk with fencing, for shell scripts. Needs flock (util-linux) and coreutils.
#
#   fence_file.sh read  FILE TOKEN [FLOOR]           raises the mark, then prints the file: a new holder does this first
#   fence_file.sh write FILE TOKEN [FLOOR] < NEW     replaces the file with the content of stdin
#
# FLOOR is the floor of a shared grant; an exclusive holder omits it. FILE.fence has the mark. Every call locks
# FILE.fence.lock. Exit codes: 0 done, 1 stale token (nothing was written), 2 wrong usage or an invalid mark.
set -eu
[ $# -ge 3 ] || { echo "usage: $0 read|write FILE TOKEN [FLOOR]" >&2; exit 2; }
what=$1 file=$2 token=$3 floor=${4:-$3}
case $what in read | write) ;; *) echo "usage: $0 read|write FILE TOKEN [FLOOR]" >&2; exit 2 ;; esac

number() { # 1 to 2^53 - 1
    case $1 in '' | *[!0-9]* | 0*) return 1 ;; esac
    [ ${#1} -le 16 ] && [ "$1" -le 9007199254740991 ]
}
replace() { # TEMPORARY TARGET: durably
    sync "$1"
    mv "$1" "$2"
    sync "$(dirname "$2")"
}
number "$token" && number "$floor" && [ "$floor" -le "$token" ] || { echo "invalid token $token or floor $floor: pass those of the grant" >&2; exit 2; }

if [ "$what" = write ]; then # stdin is read before the lock is taken, so that no other call waits for it
    new=$(mktemp "$(dirname "$file")/.fence-XXXXXX")
    trap 'rm -f "$new"' EXIT
    cat >"$new"
    chmod --reference="$file" "$new" 2>/dev/null || chmod 644 "$new"
fi
exec 9>>"$file.fence.lock"
flock 9
mark=0
if [ -e "$file.fence" ]; then
    mark=$(cat "$file.fence")
    number "$mark" || { echo "$file.fence is not a valid mark: restore it, do not delete it" >&2; exit 2; }
fi
if [ "$token" -lt "$mark" ]; then
    echo "stale fencing token $token for \"$file\": the newest is $mark" >&2
    exit 1
fi
if [ "$floor" -gt "$mark" ]; then
    raised=$(mktemp "$(dirname "$file")/.fence-XXXXXX")
    echo "$floor" >"$raised"
    chmod 644 "$raised"
    replace "$raised" "$file.fence"
fi
case $what in
read) if [ -e "$file" ]; then cat "$file"; fi ;;
write) replace "$new" "$file" ;;
esac
