#!/bin/sh
# Reads and replaces a file on a local disk with fencing, for shell scripts. Needs flock (util-linux), coreutils and find.
#
#   fence_file.sh read  FILE TOKEN [FLOOR]           raises the mark, then prints the file: a new holder does this first
#   fence_file.sh write FILE TOKEN [FLOOR] < NEW     replaces the file with the content of stdin
#
# FLOOR is the floor of a shared grant; an exclusive holder omits it. A symbolic link is its target. FILE.fence has the
# mark. Every call locks FILE.fence.lock. Exit codes: 0 done; 1 stale token, nothing was written; 2 wrong usage, an invalid
# mark, or a FILE that is not a regular file with one name; 74 the file system failed (full disk, missing permission).
set -eu
failure=74 new='' raised='' # the exit code of a command that fails; two temporary files
stop() { # EXIT_CODE MESSAGE
    failure=$1
    echo "$2" >&2
    exit "$1"
}
clean_up() {
    status=$?
    rm -f ${new:+"$new"} ${raised:+"$raised"}
    [ "$status" = 0 ] || exit "$failure"
}
trap clean_up EXIT
trap 'failure=129; exit 129' HUP
trap 'failure=130; exit 130' INT
trap 'failure=143; exit 143' TERM

number() { # 1 to 2^53 - 1
    case $1 in '' | *[!0-9]* | 0*) return 1 ;; esac
    [ ${#1} -le 16 ] && [ "$1" -le 9007199254740991 ]
}
check_file() { # a second name would have a second mark
    [ -e "$file" ] || return 0
    [ -f "$file" ] || stop 2 "$2 is not a regular file"
    [ "$(stat -c %h "$file")" = 1 ] || stop 2 "$2 has a second name (hard link), and would have a second mark"
}
owned_like() { # FILE NEW: where permitted
    chown -h --reference="$1" "$2" 2>/dev/null || chgrp -h --reference="$1" "$2" 2>/dev/null || :
}
replace() { # TEMPORARY TARGET: durably, with the owner and the mode of the target
    if [ -e "$2" ]; then
        owned_like "$2" "$1"
        chmod --reference="$2" "$1"
    else
        [ ! -e "$file" ] || owned_like "$file" "$1" # a mark: its owner can write the file later, too
        chmod +rw "$1"                              # as the umask permits
    fi
    sync "$1"
    mv -fT "$1" "$2"
    sync "${2%/*}/"
}

usage="usage: $0 read|write FILE TOKEN [FLOOR]"
[ $# -ge 3 ] && [ $# -le 4 ] && [ -n "$2" ] || stop 2 "$usage"
what=$1 token=$3 floor=${4:-$3}
case $what in read | write) ;; *) stop 2 "$usage" ;; esac
number "$token" && number "$floor" && [ "$floor" -le "$token" ] || stop 2 "invalid token $token or floor $floor: pass those of the grant"
file=$(realpath -- "$2" && echo .) # the dot keeps line ends of the name
file=${file%??}
check_file "$@"

if [ "$what" = write ]; then # stdin is read before the lock is taken, so that no other call waits for it
    new=$(mktemp "${file%/*}/.fence-XXXXXX")
    cat >"$new"
fi
if [ ! -e "$file.fence.lock" ]; then
    : >>"$file.fence.lock"
    [ ! -e "$file" ] || owned_like "$file" "$file.fence.lock"
fi
exec 9>>"$file.fence.lock"
flock 9
find "${file%/*}/" -maxdepth 1 -type f -name '.fence-??????' -mtime +0 -delete 2>/dev/null || : # of killed calls
check_file "$@"
mark=0
if [ -e "$file.fence" ]; then
    mark=$(cat "$file.fence")
    number "$mark" || stop 2 "$file.fence is not a valid mark: restore it, do not delete it"
fi
[ "$token" -ge "$mark" ] || stop 1 "stale fencing token $token for \"$2\": the newest is $mark"
if [ "$floor" -gt "$mark" ]; then
    raised=$(mktemp "${file%/*}/.fence-XXXXXX")
    echo "$floor" >"$raised"
    replace "$raised" "$file.fence"
fi
case $what in
read) if [ -e "$file" ]; then cat "$file"; fi ;;
write) replace "$new" "$file" ;;
esac
