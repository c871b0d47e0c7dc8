"""Every exception a user can meet, in one place.

A :class:`TauError` is a mistake with a remedy: its text is one sentence that says what is wrong, where, and what to
do, and the command line prints it without a traceback and leaves with exit code 2. Anything else that escapes is a
defect of this program.
"""


class TauError(Exception):
    """A mistake with a remedy, told in one sentence. Exit code 2."""

    exit_code: int = 2


class SettingsError(TauError):
    """A settings file, key, value or flag that cannot be used; ``problems``: a sentence for each."""

    def __init__(self, text: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems or (text,)


class RunExistsError(SettingsError):
    """The results folder of this run-id holds a run already."""


class RunFinishedError(TauError):
    """The run that is to be resumed has had all its decisions."""

    exit_code = 0


class DataError(TauError):
    """A Tau data set, or a recorded demonstration, that cannot be used."""


class EngineError(TauError):
    """Something about the process that runs the game."""


class EnvironmentFaultError(EngineError):
    """An author's environment returned what its interface does not allow: another start changes nothing."""


class LaunchError(EngineError):
    """The engine's program is missing, not executable, or refused by the operating system."""


class PortInUseError(EngineError):
    """The port is taken by another program."""


class EngineExitedError(EngineError):
    """The engine's process ended by itself."""


class EngineLeftError(EngineExitedError):
    """The engine said goodbye before it was asked to."""


class EngineDisconnectedError(EngineError):
    """The connection to the engine broke."""


class EngineTimeoutError(EngineError):
    """The engine did not answer in time."""


class EngineStoppedError(EngineError):
    """Whoever runs the game has ended it (Stop in the Unity editor, or it crashed there): no failure of ours."""


class EngineRefusedError(EngineError):
    """The behaviors that the engine shows are not those of the run; the text says what is wrong with which."""


class VersionError(EngineError):
    """The engine speaks a protocol version that cannot be understood."""


class ActorError(EngineError):
    """The process in which an actor plays ended, or cannot be started."""


class ClusterError(TauError):
    """A Ray cluster that cannot be started or reached, or whose nodes lack what a run needs."""


class DecodeError(EngineError):
    """The engine sent bytes that are not the protocol, or numbers that are not finite."""


class CallbackError(TauError):
    """A callback of the user's own raised; the text names it."""


class LearnerError(TauError):
    """The process in which an algorithm learns ended, or cannot be started."""


class CheckpointError(TauError):
    """A checkpoint that is missing, damaged, or belongs to other settings."""


class ExportError(TauError):
    """A model that could not be exported or whose export differs from the network."""


class HubError(TauError):
    """The Hugging Face Hub, or a repository there, does not give or take what it should."""


class NonFiniteError(TauError):
    """NaN or infinity where learning needs a number; the text names behavior and tensor."""


class StalledError(TauError):
    """No progress for too long; the text names who waits for whom."""


_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")
"""What torch says where memory is full, in a RuntimeError."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory was full: the machine's, or a device's."""
    full = isinstance(error, RuntimeError) and any(text in str(error).lower() for text in _NO_MEMORY)
    return full or isinstance(error, MemoryError)


def sentence_of(error: Exception) -> str:
    """An error as one sentence: a TauError's own, and for a defect of this program also what kind it is."""
    return str(error) if isinstance(error, TauError) else f"internal error: {type(error).__name__}: {error}"
