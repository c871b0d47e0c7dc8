"""A connection to a Ray cluster, or to a private cluster of this process: its start and its end.

Ray's processes end with the thread that started them, so both run in their own thread.
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
from tau_trainer.cluster.nodes import Node, alive, amounts, options_of, rays_names, survey
from tau_trainer.errors import ClusterError, TauError
from tau_trainer.settings import ClusterSettings

if TYPE_CHECKING:
    from tau_trainer.cluster.place import RayPlace

_STORE_BYTES = 256 << 20
"""Memory of a private node's object store."""
_LONGEST = 26
"""Maximum characters of a folder, so that paths to Ray's sockets have at most 107."""
_END_S = 30.0
WATCH_S = 2.0
_SILENT = 3
"""Number of failed checks of the head in a row after which the cluster is lost."""


class Cluster:
    """A cluster for launching processes; a private one ends with this connection.

    Attributes:
        asked: resources of each process, by Ray's names.
        nodes: nodes with these resources.
        home: folder of a private cluster, accessible only to this user.
        head: HOST:PORT of its head.
        lost: a sentence, once the head no longer answers.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        """Connect, or start a private cluster. Raises ClusterError."""
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
        """Find the nodes that have the resources in the settings. Raises ClusterError."""
        self.asked = rays_names(self.settings.resources)
        known = alive()
        self._names = {node.id: node.name for node in known}
        self.nodes = [node for node in known if node.room(self.asked)]
        if not self.nodes:
            raise ClusterError(
                f"no node of cluster {self.settings.address} has the resources for a process "
                f"({amounts(self.asked)}): {'; '.join(map(str, known))}; change cluster.resources"
            )

    def _live(self) -> None:
        """Connect, and stay connected until the connection ends."""
        if hasattr(signal, "pthread_sigmask"):
            # The run handles Ctrl-C and a closed terminal; it needs the cluster while it saves.
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
        """Wait until it is closed. If the head is lost, Ray would end this process after a minute without a message."""
        silent = 0
        while not self._ends.wait(WATCH_S):
            silent = 0 if answers(self.head, WATCH_S) else silent + 1
            if silent == _SILENT and not self.lost:
                self.lost = (
                    f"the head of the Ray cluster ({self.head}) no longer answers; start the cluster again and "
                    "continue with --resume"
                )
                for place in self._places:
                    place.lose()

    def _connect(self, address: str, begun: contextlib.ExitStack) -> None:
        import ray

        if ray.is_initialized():
            raise ClusterError("this process already uses a Ray cluster; call ray.shutdown() before the run")
        self._check_imported(address)
        logging.getLogger("ray").setLevel(logging.ERROR)
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
        count = self.settings.private
        if count:
            self.home = home = _home()
            begun.callback(shutil.rmtree, home, ignore_errors=True)
            cores = max(1, (os.cpu_count() or 1) // count)
            options |= {"num_cpus": cores, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
            inner = os.path.join(home, "r")  # Ray makes its folder accessible to every user of this machine
            options |= {"_temp_dir": inner, "_node_name": "local-1"}
        self.head = str(ray.init(address=address, **options).address_info["gcs_address"])
        begun.callback(lambda: self.lost or ray.shutdown())  # shutdown would wait for a lost head
        nodes = list[Any]()
        begun.callback(end_nodes, nodes)
        for number in range(2, count + 1):
            nodes.append(start_node(f"local-{number}", self.head, inner, cores))

    def _check_imported(self, address: str) -> None:
        """Check an earlier import of Ray, which has read the environment of that time. Raises ClusterError."""
        with contextlib.suppress(ImportError, AttributeError):
            from ray._private.ray_constants import ENABLE_RAY_CLUSTER
            from ray._raylet import AuthenticationTokenLoader, Config

            if self.settings.private and ENABLE_RAY_CLUSTER:
                raise ClusterError(
                    "this process has imported ray before, and a private cluster of it would be open to others; import "
                    "it later, set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before, or start the run by `tau-train`"
                )
            if not self.settings.private and not ENABLE_RAY_CLUSTER and sys.platform == "linux":
                raise ClusterError("Ray in this process is bound to an earlier private cluster; use a new process")
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
        """Options of the Ray actor for a process."""
        return options_of(self.asked)

    def name(self, node: str) -> str:
        """The name of a node by its ID; looks up nodes that joined later."""
        if node not in self._names:
            self._names |= {known.id: known.name for known in alive()}
        return self._names.get(node, node)

    @property
    def address(self) -> str:
        """This machine's address for the nodes."""
        if self.settings.private:
            return self.head.rpartition(":")[0]
        import ray

        return str(ray.util.get_node_ip_address())

    @property
    def described(self) -> str:
        """The resources for each process, and those of the nodes."""
        return f"{'; '.join(map(str, self.nodes))}, {amounts(self.asked) or 'nothing'} for each process"

    @property
    def room(self) -> int:
        """Number of processes that fit on all nodes together."""
        return sum(node.room(self.asked) for node in self.nodes)

    def check(self, program: str | None) -> None:
        """Check that all nodes have this version, and ``program``, a build. Raises ClusterError."""
        survey(self.nodes, program)

    def full(self, seconds: float) -> str:
        """Why a process has not started within ``seconds``."""
        import ray

        free = {name: amount for name, amount in ray.available_resources().items() if name in self.asked}
        return (
            f"no node had room for it within {seconds:g} s: it needs {amounts(self.asked)}, and all nodes together "
            f"have {amounts(free) or 'nothing'} free; {'; '.join(map(str, self.nodes))}; "
            "start fewer actors or change cluster.resources"
        )

    def place(self, slots: int, weights: int) -> RayPlace:
        """A place to run processes; close it before this. See :data:`~tau_trainer.remote.process.Places`."""
        from tau_trainer.cluster.place import RayPlace

        self._places.append(RayPlace(self, slots, weights))
        return self._places[-1]

    def close(self) -> None:
        """End it; further calls do nothing."""
        self._ends.set()
        self._thread.join(_END_S)


@contextlib.contextmanager
def variables(given: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables. At the end, all of Ray's variables are restored, also those set by Ray."""
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


def _of_ray() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(("RAY_", "TUNE_"))}


def _home() -> str:
    """A new folder with a short name, because it contains sockets."""
    folder = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="tau-", dir=folder if len(folder) <= _LONGEST else "/tmp")


def start_node(name: str, head: str, folder: str, cores: int) -> Any:
    """Start another node of a private cluster; ``folder``: for Ray's files.

    It does the same as ``ray.cluster_utils.Cluster``, which would also make the cluster the default for every
    ``ray.init()`` of this user (``ray_current_cluster``).
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
    """End nodes of :func:`start_node` with everything that runs on them."""
    for node in nodes:
        with contextlib.suppress(Exception):  # a killed node can fail here
            node.kill_all_processes(check_alive=False, allow_graceful=True)
