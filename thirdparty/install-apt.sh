#!/bin/sh
# Install the Debian packages named in thirdparty/apt/ that are not there yet.
# Nothing is downloaded, and root is not needed, when none is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

. /etc/os-release
release=${ID:-unknown}-${VERSION_ID:-unknown}
if [ ! -f "$here/apt/$release.txt" ]; then
  echo "setup: this is ${PRETTY_NAME:-$release}; the set-up knows Debian 12 and 13 only" \
    "(docs/dependencies.md lists what to install by hand, then: touch build/.stamps/apt)" >&2
  exit 1
fi

missing=
for package in $(sed 's/#.*//' "$here/apt/common.txt" "$here/apt/$release.txt"); do
  case $(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true) in
  ii*) ;;
  *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
  echo "setup: Debian packages are missing; as root: apt-get install --no-install-recommends$missing" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2086 # one word a package
apt-get install -q -y --no-install-recommends $missing
