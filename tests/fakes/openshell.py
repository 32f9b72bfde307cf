"""An OpenShell gateway with state, from the definitions in an `openshell` wheel of PyPI. A sandbox is a root directory with
the host's programs in namespaces of its own. Arguments: the directory of the packages, the unpacked wheel, its version, and
a JSON object with `program`, `token`, `agent` (a program of the image) and the faults. Prints its port, then one JSON object for each call.

`tls` is a directory with certificates: the gateway asks its clients for one.

Faults: `create_times_out`, `never_ready`, `phase_error`, `cut` (a word of the command whose stream is cut), `cut_after` (bytes),
`delete_fails` (how often), `slow` (seconds before every answer).
"""

import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import uuid
from concurrent import futures

packages, wheel, version = sys.argv[1:4]
options = json.loads(sys.argv[4])
sys.path.insert(0, packages)
# Only the definitions: the rest of the package needs more than they do.
package = types.ModuleType("openshell")
package.__path__ = [os.path.join(wheel, "openshell")]
sys.modules["openshell"] = package

import grpc  # noqa: E402
from google.protobuf import json_format  # noqa: E402
from openshell._proto import openshell_pb2 as pb  # noqa: E402
from openshell._proto import openshell_pb2_grpc as pb_grpc  # noqa: E402

IS_NEW = version.startswith("0.1.")
PROVISIONING, READY, ERROR = 1, 2, 3

# Makes a root of the host's programs and a writable rest, and waits there.
SETUP = r"""
set -e
# `ip` and `chroot` are in directories that only root's PATH has.
PATH=$PATH:/usr/sbin:/sbin
root=$1; program=$2; agent=$3
for directory in usr bin sbin lib lib32 lib64 libx32 etc; do
  if [ -L /$directory ]; then ln -sfn "$(readlink /$directory)" $root/$directory
  elif [ -d /$directory ]; then mkdir -p $root/$directory; mount --rbind /$directory $root/$directory
  fi
done
for directory in proc dev; do mkdir -p $root/$directory; mount --rbind /$directory $root/$directory; done
mkdir -p $root/opt/fullsend
if [ -n "$program" ]; then : > $root/opt/fullsend/fullsend; mount --bind "$program" $root/opt/fullsend/fullsend; fi
if [ -n "$agent" ]; then
  mount -t tmpfs tmpfs $root/usr/local/bin
  : > $root/usr/local/bin/$(basename "$agent"); mount --bind "$agent" $root/usr/local/bin/$(basename "$agent")
fi
ip link set lo up
exec chroot $root /bin/sh -c 'echo ready; exec sleep infinity'
"""

lock = threading.Lock()


def say(path, **about):
    with lock:
        print(json.dumps({"path": path, **about}), flush=True)


class Sandbox:
    def __init__(self, request):
        self.id = str(uuid.uuid4())
        self.name = request.name
        self.made = time.monotonic()
        self.root = tempfile.mkdtemp(prefix="openshell-")
        self.commands = []
        self.environment = {}
        for path in ["sandbox", "tmp", *[p.lstrip("/") for p in request.spec.policy.filesystem.read_write]]:
            os.makedirs(os.path.join(self.root, path), exist_ok=True)
        os.chmod(os.path.join(self.root, "tmp"), 0o1777)
        words = ["unshare", "--user", "--map-root-user", "--mount", "--net"]
        words += ["sh", "-c", SETUP, "sh", self.root, options.get("program", ""), options.get("agent", "")]
        self.main = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        if self.main.stdout.readline().strip() != b"ready":
            raise RuntimeError("the sandbox cannot be made")
        say("root", root=self.root)

    def phase(self):
        if options.get("phase_error"):
            return ERROR
        late = time.monotonic() - self.made < options.get("ready_after", 0)
        return PROVISIONING if options.get("never_ready") or late else READY

    def start(self, request):
        inner = ["sh", "-c", 'cd "$0" && exec "$@"', request.workdir or "/sandbox", *request.command]
        target = str(self.main.pid)
        words = ["nsenter", "-t", target, "--user", "--preserve-credentials", "--mount", "--net", "--root", "--wd", *inner]
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/sandbox"}
        environment.update(self.environment)
        environment.update(request.environment)
        command = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.commands.append(command)
        return command

    def delete(self):
        for command in [*self.commands, self.main]:
            if command.poll() is not None:
                continue  # its number may be another program's by now
            try:
                os.killpg(command.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            command.wait()
        shutil.rmtree(self.root, ignore_errors=True)


class Gateway(pb_grpc.OpenShellServicer):
    def __init__(self):
        self.sandboxes = {}
        self.providers = {}
        self.profiles = {}
        self.deletes = 0

    def enter(self, context, path, **about):
        say(path, **about)
        time.sleep(options.get("slow", 0))
        token = options.get("token")
        sent = dict(context.invocation_metadata()).get("authorization")
        if token and sent != f"Bearer {token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "invalid token")

    def find(self, word, context):
        for sandbox in self.sandboxes.values():
            if word in (sandbox.name, sandbox.id):
                return sandbox
        context.abort(grpc.StatusCode.NOT_FOUND, f"sandbox '{word}' not found")

    def Health(self, request, context):
        say("Health")
        return pb.HealthResponse(status=1, version=version)

    def answer(self, sandbox):
        answer = pb.SandboxResponse()
        answer.sandbox.metadata.id = sandbox.id
        answer.sandbox.metadata.name = sandbox.name
        answer.sandbox.status.phase = sandbox.phase()
        if sandbox.phase() == ERROR:
            answer.sandbox.status.conditions.add(type="Ready", message="image pull failed")
        return answer

    def CreateSandbox(self, request, context):
        asked = json_format.MessageToDict(request, preserving_proto_field_name=True)
        self.enter(context, "CreateSandbox", asked=asked)
        for provider in request.spec.providers:
            if provider not in self.providers:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"provider '{provider}' not found")
        sandbox = Sandbox(request)
        for provider in request.spec.providers:
            for key in self.providers[provider].credentials:
                sandbox.environment[key] = f"openshell:resolve:env:v1_{key}"
        self.sandboxes[sandbox.name] = sandbox
        if options.get("create_times_out"):
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the driver took too long")
        return self.answer(sandbox)

    def GetSandbox(self, request, context):
        self.enter(context, "GetSandbox", name=request.name)
        return self.answer(self.find(request.name, context))

    def DeleteSandbox(self, request, context):
        self.enter(context, "DeleteSandbox", name=request.name)
        self.deletes += 1
        if self.deletes <= options.get("delete_fails", 0):
            context.abort(grpc.StatusCode.UNAVAILABLE, "driver is busy")
        sandbox = self.find(request.name, context)
        sandbox.delete()
        del self.sandboxes[sandbox.name]
        say("deleted", name=sandbox.name, left=len(self.sandboxes))
        return pb.DeleteSandboxResponse(outcome=1) if IS_NEW else pb.DeleteSandboxResponse(deleted=True)

    def ImportProviderProfiles(self, request, context):
        asked = json_format.MessageToDict(request, preserving_proto_field_name=True)
        self.enter(context, "ImportProviderProfiles", asked=asked)
        for item in request.profiles:
            self.profiles[item.profile.id] = item.profile
        return pb.ImportProviderProfilesResponse(imported=True)

    def CreateProvider(self, request, context):
        name = request.provider.metadata.name
        self.enter(context, "CreateProvider", name=name, keys=sorted(request.provider.credentials))
        if request.provider.type not in self.profiles:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"no profile '{request.provider.type}'")
        self.providers[name] = request.provider
        return pb.ProviderResponse(provider=request.provider)

    def DeleteProvider(self, request, context):
        self.enter(context, "DeleteProvider", name=request.name)
        if self.providers.pop(request.name, None) is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such provider")
        say("provider deleted", left=len(self.providers))
        return pb.DeleteProviderResponse()

    def DeleteProviderProfile(self, request, context):
        self.enter(context, "DeleteProviderProfile", name=request.id)
        if self.profiles.pop(request.id, None) is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such profile")
        return pb.DeleteProviderProfileResponse()

    def ExecSandboxInteractive(self, requests, context):
        start = next(requests).start
        word = start.sandbox if IS_NEW else start.sandbox_id
        self.enter(context, "ExecSandboxInteractive", command=list(start.command), environment=dict(start.environment))
        command = self.find(word, context).start(start)
        context.add_callback(lambda: command.poll() is None and os.killpg(command.pid, signal.SIGKILL))
        threading.Thread(target=feed, args=(requests, command), daemon=True).start()
        events = queue.Queue(64)
        for name in ("stdout", "stderr"):
            threading.Thread(target=read, args=(name, getattr(command, name), events), daemon=True).start()
        cut = options.get("cut") in start.command if options.get("cut") else False
        left = options.get("cut_after", 0)
        open_streams = 2
        while open_streams:
            name, data = events.get()
            if not data:
                open_streams -= 1
                continue
            if cut:
                data, left = data[:left], left - len(data)
            event = pb.ExecSandboxEvent()
            getattr(event, name).data = data
            if data:
                yield event
            if cut and left <= 0:
                # The command is killed when the call has ended: whoever sees it die has seen the cut.
                say("cut", command=list(start.command))
                return
        code = command.wait()
        event = pb.ExecSandboxEvent()
        event.exit.exit_code = 128 - code if code < 0 else code
        yield event


def feed(requests, command):
    try:
        for request in requests:
            command.stdin.write(request.stdin)
            command.stdin.flush()
    except (OSError, grpc.RpcError):
        pass
    except Exception:  # the stream ends with its call
        pass
    try:
        command.stdin.close()
    except OSError:
        pass


def read(name, stream, events):
    while data := os.read(stream.fileno(), 1 << 16):
        events.put((name, data))
    events.put((name, b""))


gateway = Gateway()
server = grpc.server(futures.ThreadPoolExecutor(max_workers=64))
pb_grpc.add_OpenShellServicer_to_server(gateway, server)
if place := options.get("tls"):
    key, certificate, authority = (pathlib.Path(place, name).read_bytes() for name in ("server.key", "server.crt", "ca.crt"))
    known = grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", known)
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
# It ends with the test that started it.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
try:
    sys.stdin.read()
finally:
    for sandbox in list(gateway.sandboxes.values()):
        sandbox.delete()
    os._exit(0)
