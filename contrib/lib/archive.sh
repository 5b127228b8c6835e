# shellcheck shell=bash disable=SC2016
# archive.sh - where Debian comes from, for contrib/matrix and contrib/arm64.

# The archive from which apt has Debian here, and how apt reaches it.
archive() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sed -n 1p
}
apt_settings() { apt-config dump | grep -E '^Acquire::(https?|Retries|Check-)' || :; }
