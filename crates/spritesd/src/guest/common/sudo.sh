#!/bin/sh
# sudo of a Sprite on this machine: runs a command as the user who calls it, who owns all files here. There is no other
# user to become: root has no more rights than `sprite`.
set -eu
say() { echo "sudo: $*" >&2; exit 1; }
user=root shell=
while [ $# -gt 0 ]; do
    case $1 in
    --) shift; break ;;
    -u|--user) [ $# -gt 1 ] || say "$1 needs a user"; user=$2; shift ;;
    -u*) user=${1#-u} ;;
    --user=*) user=${1#--user=} ;;
    -g|-h|-p|-C|-r|-t|-T|-R|-U) [ $# -gt 1 ] || say "$1 needs an argument"; shift ;;
    -D|--chdir) [ $# -gt 1 ] || say "$1 needs a directory"; cd "$2"; shift ;;
    --chdir=*) cd "${1#--chdir=}" ;;
    -i|--login) shell=login ;;
    -s|--shell) shell=plain ;;
    -v|-k|-K|--validate|--reset-timestamp|--remove-timestamp) [ $# -gt 1 ] || exit 0 ;;
    -l|--list) [ $# -gt 1 ] || { echo "User sprite may run all commands, as sprite."; exit 0; } ;;
    -V|--version) echo "sudo of spritesd: runs a command as sprite"; exit 0 ;;
    --help) echo "usage: sudo [-nEHiskS] [-u root|sprite] [-D directory] [VAR=value] [command]"; exit 0 ;;
    -*) ;;
    *=*) export "$1" ;;
    *) break ;;
    esac
    shift
done
while [ $# -gt 0 ]; do
    case $1 in *=*) export "$1"; shift ;; *) break ;; esac
done
case $user in
root | sprite | '#0' | '#1000') ;;
*) say "unknown user $user: a Sprite here has only sprite, and root as another name of it" ;;
esac
case $shell in
login) cd; [ $# -gt 0 ] || exec "${SHELL:-/bin/bash}" -l; exec "${SHELL:-/bin/bash}" -lc '"$@"' sudo "$@" ;;
plain) [ $# -gt 0 ] || exec "${SHELL:-/bin/bash}" ;;
esac
[ $# -gt 0 ] || say "no command: sudo [-n] [-u root|sprite] command"
exec "$@"
