#!/bin/sh
# Checks the files of contrib/kubernetes against the schemas of Kubernetes, with kubernetes-validate
# from PyPI (`pip install kubernetes-validate`).
# usage: kubernetes.sh
set -eu
cd "$(dirname "$0")/.."
command -v kubernetes-validate >/dev/null || {
    echo "kubernetes.sh: kubernetes-validate is missing: pip install kubernetes-validate" >&2
    exit 1
}
exec kubernetes-validate --strict contrib/kubernetes/agent.yaml contrib/kubernetes/collector.yaml
