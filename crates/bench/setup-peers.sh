#!/usr/bin/env bash
# Installs what bench `peers` compares with, from Debian, if it is missing: redis-server and PostgreSQL 15.
# The bench starts private instances itself; services that the packages bring are not used.
set -euo pipefail

missing=()
command -v redis-server >/dev/null 2>&1 || missing+=(redis-server)
[ -x /usr/lib/postgresql/15/bin/initdb ] || command -v initdb >/dev/null 2>&1 || missing+=(postgresql-15)
# Makes the standby of the replicated mode.
[ -x /usr/lib/postgresql/15/bin/pg_basebackup ] || command -v pg_basebackup >/dev/null 2>&1 || missing+=(postgresql-client-15)

if [ "${#missing[@]}" = 0 ]; then
    echo "redis-server and PostgreSQL are there"
    exit
fi
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
