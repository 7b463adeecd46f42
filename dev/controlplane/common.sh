# common.sh: what `build`, `up` and `down` agree on. Sourced, never run.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# required_version MODULE GO_MOD: versions are said once, in a go.mod.
required_version() {
  awk -v module="$1" '{ sub(/^require /, "") } $1 == module { print $2; exit }' "$2"
}

kubernetes_version=$(required_version k8s.io/kubernetes "$here/go.mod")

# One folder a version, shared by all checkouts of this user.
bin_dir=${XDG_CACHE_HOME:-$HOME/.cache}/sprite-operator/controlplane/$kubernetes_version

# The supervisor changes with the checkout, not with Kubernetes: its sources are part of its name.
supervisor=$bin_dir/supervisor-$(cat "$here"/supervisor/*.go | sha256sum | cut -c1-12)

# A folder is ours when this file is in it; nothing else is ever removed.
marker=.sprite-operator-controlplane

fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# usage: print the comment at the top of the calling script.
usage() {
  sed -n '2,/^$/ { s/^# \{0,1\}//; p; }' "$0"
}
