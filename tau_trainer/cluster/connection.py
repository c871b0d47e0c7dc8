"""A connection to a Ray cluster, or a private one of this process: how it begins and ends.

Ray's processes end with the thread that started them, so both are in a thread of their own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tau_trainer.cluster.address import address_of, answers, environment_of
from tau_trainer.errors import ClusterError, TauError
from tau_trainer.settings import ClusterSettings

if TYPE_CHECKING:
    from tau_trainer.cluster.nodes import Node
    from tau_trainer.cluster.place import RayPlace

_STORE_BYTES = 256 << 20
"""Of a private node's memory, for what is on its way."""
_LONGEST = 26
"""Characters of a folder in which a path to Ray's sockets has 107 or fewer, as it must."""
_END_S = 30.0
WATCH_S = 2.0
_SILENT = 3
"""Looks at the head, one after the other, that find nobody."""


class Connection:
    """A cluster that processes are launched on; a private one ends with it.

    Attributes:
        asked: resources of each process, by Ray's names.
        nodes: those that have so much.
        home: folder of a private one, which this user alone can enter.
        head: HOST:PORT of its head.
        lost: a sentence, once that does not answer any more.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        """Connect, or start a private one. Raises ClusterError."""
        self.settings = settings
        self.nodes: list[Node] = []
        self.asked: Mapping[str, float] = {}
        self.home: str | None = None
        self.head = self.lost = ""
        self._places: list[RayPlace] = []
        self._names: dict[str, str] = {}
        self._begun, self._ends = threading.Event(), threading.Event()
        self._failed = list[Exception]()
        self._thread = threading.Thread(target=self._live, name="cluster", daemon=True)
        self._thread.start()
        self._begun.wait()
        if self._failed:
            self._thread.join(_END_S)
            raise self._failed[0]
        try:
            self.find()
        except BaseException:
            self.close()
            raise

    def find(self) -> None:
        """Nodes that have what the settings ask for. Raises ClusterError."""
        from tau_trainer.cluster import nodes

        self.asked = nodes.rays_names(self.settings.resources)
        known = nodes.alive()
        self._names = {node.id: node.name for node in known}
        self.nodes = [node for node in known if node.room(self.asked)]
        if not self.nodes:
            raise ClusterError(
                f"no node of cluster {self.settings.address} has what each process asks for "
                f"({nodes.amounts(self.asked)}): {'; '.join(map(str, known))}; change cluster.resources"
            )

    def _live(self) -> None:
        """Connect, and stay until it ends."""
        if hasattr(signal, "pthread_sigmask"):
            # Ctrl-C and a terminal that closes are answered by the run, which needs the cluster while it saves.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
        try:
            with contextlib.ExitStack() as begun:
                address = address_of(self.settings)
                begun.enter_context(variables(environment_of(self.settings)))
                self._connect(address, begun)
                self._begun.set()
                self._watch()
        except TauError as error:
            self._failed.append(error)
        except ImportError:
            problem = "--cluster needs Ray; install it with: pip install 'tau-trainer[cluster]'"
            self._failed.append(ClusterError(problem))
        except Exception as error:
            text = " ".join(str(error).strip().partition("\n")[0].split()) or type(error).__name__
            problem = (
                f"--cluster {self.settings.address}: Ray cannot connect ({text}); this machine must be a node of the "
                "cluster (ray start --address=HOST:PORT), with its token"
            )
            self._failed.append(ClusterError(problem))
        finally:
            self._begun.set()

    def _watch(self) -> None:
        """Wait until it is closed. Without its head Ray ends this process after a minute, without a word."""
        silent = 0
        while not self._ends.wait(WATCH_S):
            silent = 0 if answers(self.head, WATCH_S) else silent + 1
            if silent == _SILENT and not self.lost:
                self.lost = (
                    f"the head of the Ray cluster ({self.head}) does not answer any more; start the cluster again and "
                    "go on with --resume"
                )
                for place in self._places:
                    place.lose()

    def _connect(self, address: str, begun: contextlib.ExitStack) -> None:
        import ray

        if ray.is_initialized():
            raise ClusterError("this process uses a Ray cluster already; call ray.shutdown() before the run")
        self._check_imported(address)
        logging.getLogger("ray").setLevel(logging.ERROR)
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
        count = self.settings.private
        if count:
            self.home = home = _home()
            begun.callback(shutil.rmtree, home, ignore_errors=True)
            cores = max(1, (os.cpu_count() or 1) // count)
            options |= {"num_cpus": cores, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
            inner = os.path.join(home, "r")  # Ray opens its own folder, and all in it, to every user of this machine
            options |= {"_temp_dir": inner, "_node_name": "local-1"}
        self.head = str(ray.init(address=address, **options).address_info["gcs_address"])
        begun.callback(lambda: self.lost or ray.shutdown())  # it would wait for the head
        nodes = list[Any]()
        begun.callback(end_nodes, nodes)
        for number in range(2, count + 1):
            nodes.append(start_node(f"local-{number}", self.head, inner, cores))

    def _check_imported(self, address: str) -> None:
        """Where Ray was imported before, it has read the environment as it was then."""
        with contextlib.suppress(ImportError, AttributeError):
            from ray._private.ray_constants import ENABLE_RAY_CLUSTER
            from ray._raylet import AuthenticationTokenLoader, Config

            if self.settings.private and ENABLE_RAY_CLUSTER:
                raise ClusterError(
                    "this process has imported ray before, and a private cluster of it would be open to others; import "
                    "it later, set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before, or start the run by `tau-train`"
                )
            if not self.settings.private and not ENABLE_RAY_CLUSTER and sys.platform == "linux":
                raise ClusterError("this process had a private cluster, to which Ray keeps; start the run in another")
            if not self.settings.private and not ENABLE_RAY_CLUSTER and not _on_loopback(address):
                raise ClusterError(
                    f"--cluster {self.settings.address}: on Windows and macOS Ray joins no cluster of several machines "
                    "by default; run the command on Linux, or set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=1 here and on "
                    "every other such machine of the cluster, which Ray allows but does not support"
                )
            Config.initialize("")
            AuthenticationTokenLoader.instance().reset_cache()

    @property
    def options(self) -> dict[str, Any]:
        """Of a Ray actor that a process is."""
        from tau_trainer.cluster.nodes import options_of

        return options_of(self.asked)

    def name(self, node: str) -> str:
        """What a node is called, by its id; one that has joined since is asked for."""
        if node not in self._names:
            from tau_trainer.cluster.nodes import alive

            self._names |= {known.id: known.name for known in alive()}
        return self._names.get(node, node)

    @property
    def address(self) -> str:
        """Of this machine, as its nodes reach it."""
        return self.head.rpartition(":")[0] if self.settings.private else _address()

    @property
    def described(self) -> str:
        """What each process asks for, and what the nodes have."""
        from tau_trainer.cluster.nodes import amounts

        return f"{'; '.join(map(str, self.nodes))}, {amounts(self.asked) or 'nothing'} for each process"

    @property
    def room(self) -> int:
        """How many processes fit on all nodes together."""
        return sum(node.room(self.asked) for node in self.nodes)

    def check(self, program: str | None) -> None:
        """Whether all nodes have this version, and ``program``, a build. Raises ClusterError."""
        from tau_trainer.cluster.nodes import survey

        survey(self.nodes, program)

    def full(self, seconds: float) -> str:
        """Why a process has not begun within so many seconds."""
        import ray

        from tau_trainer.cluster.nodes import amounts

        free = {name: amount for name, amount in ray.available_resources().items() if name in self.asked}
        return (
            f"no node had room for it within {seconds:g} s: it asks for {amounts(self.asked)}, of which "
            f"{amounts(free) or 'nothing'} is free in all, and {'; '.join(map(str, self.nodes))}; "
            "start fewer actors or change cluster.resources"
        )

    def place(self, seats: int, weights: int) -> RayPlace:
        """Where processes run; close it before this. See :data:`~tau_trainer.remote.process.Places`."""
        from tau_trainer.cluster.place import RayPlace

        self._places.append(RayPlace(self, seats, weights))
        return self._places[-1]

    def close(self) -> None:
        """End it; further calls do nothing."""
        self._ends.set()
        self._thread.join(_END_S)


@contextlib.contextmanager
def variables(given: Mapping[str, str]) -> Iterator[None]:
    """With these in the environment. What is Ray's there is put back in the end, also what Ray itself has set."""
    before = _of_ray()
    os.environ.update(given)
    try:
        yield
    finally:
        for name in _of_ray().keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _on_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    return host in ("localhost", "::1") or host.startswith("127.")


def _address() -> str:
    import ray

    return str(ray.util.get_node_ip_address())


def _of_ray() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(("RAY_", "TUNE_"))}


def _home() -> str:
    """A new folder whose name is short: sockets lie in it."""
    folder = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="tau-", dir=folder if len(folder) <= _LONGEST else "/tmp")


def start_node(name: str, head: str, folder: str, cores: int) -> Any:
    """One more node of a private cluster; ``folder``: of Ray's own files.

    ``ray.cluster_utils.Cluster`` makes them so; but that tells every ``ray.init()`` of this user that the cluster is
    theirs (``ray_current_cluster``).
    """
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    params = RayParams(
        num_cpus=cores,
        num_gpus=0,
        object_store_memory=_STORE_BYTES,
        gcs_address=head,
        temp_dir=folder,
        node_name=name,
        include_log_monitor=False,
        node_manager_port=0,
        min_worker_port=0,
        max_worker_port=0,
    )
    params.dashboard_agent_listen_port = None
    return Node(params, head=False, shutdown_at_exit=False)


def end_nodes(nodes: list[Any]) -> None:
    """Nodes of :func:`start_node` end, with all that runs on them."""
    for node in nodes:
        with contextlib.suppress(Exception):  # one that was killed has left little to end
            node.kill_all_processes(check_alive=False, allow_graceful=True)
