"""Writes an OCI image layout as a tar to standard output, from a layer's tar on standard input."""

import datetime
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
version = sys.argv[1]
files = {}


def add_blob(media_type, content):
    """Adds a blob and returns its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    files[f"blobs/sha256/{digest}"] = content
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def encode(document):
    return json.dumps(document, sort_keys=True).encode()


layer = sys.stdin.buffer.read()
created = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
config = add_blob("application/vnd.oci.image.config.v1+json", encode({
    "created": created,
    "architecture": "amd64",
    "os": "linux",
    "config": {
        "User": "999:999",
        "Env": ["PATH=/usr/bin", "XDG_DATA_HOME=/var/lib", "HOME=/var/lib/longhaul"],
        "Entrypoint": ["/usr/bin/longhaul"],
        "Cmd": ["serve"],
        "WorkingDir": "/var/lib/longhaul",
        "ExposedPorts": {"5201/tcp": {}, "5201/udp": {}, "5280/tcp": {}},
        "Volumes": {"/var/lib/longhaul": {}},
    },
    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    "history": [{"created": created, "created_by": "packaging/dist.sh"}],
}))
layer = add_blob("application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress(layer, 9, mtime=0))
manifest = add_blob("application/vnd.oci.image.manifest.v1+json", encode({
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": config,
    "layers": [layer],
}))
manifest["annotations"] = {"org.opencontainers.image.ref.name": f"longhaul:{version}"}
files["index.json"] = encode({"schemaVersion": 2, "manifests": [manifest]})
files["oci-layout"] = encode({"imageLayoutVersion": "1.0.0"})

with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
    for name, content in sorted(files.items()):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mtime = len(content), EPOCH
        archive.addfile(entry, io.BytesIO(content))
