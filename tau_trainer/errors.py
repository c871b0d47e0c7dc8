"""All exceptions that a user can see.

A :class:`TauError` is an error that the user can fix: its text is one sentence that says what is wrong, where, and
what to do. The command line prints it without a traceback and exits with code 2. Any other exception that escapes is
a bug in this program.
"""


class TauError(Exception):
    """An error that the user can fix, described in one sentence. Exit code 2."""

    exit_code: int = 2


class SettingsError(TauError):
    """An invalid settings file, key, value or flag; ``problems``: one sentence for each problem."""

    def __init__(self, text: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems or (text,)


class RunExistsError(SettingsError):
    """The results folder of this run ID already holds a run."""


class RunFinishedError(TauError):
    """The run to resume has already reached ``max_steps``. Exit code 0."""

    exit_code = 0


class DataError(TauError):
    """An unusable Tau data set or recorded demonstration."""


class EngineError(TauError):
    """A problem with the process that runs the game."""


class EnvironmentFaultError(EngineError):
    """An environment returned a value that its interface does not allow. Restarting it does not help."""


class LaunchError(EngineError):
    """The engine's program is missing, not executable, or refused by the operating system."""


class PortInUseError(EngineError):
    """Another program uses the port."""


class EngineExitedError(EngineError):
    """The engine's process ended unexpectedly."""


class EngineLeftError(EngineExitedError):
    """The engine closed the connection before the trainer asked it to."""


class EngineDisconnectedError(EngineError):
    """The connection to the engine broke."""


class EngineTimeoutError(EngineError):
    """The engine did not answer in time."""


class EngineStoppedError(EngineError):
    """The game was ended on its side (Stop in the editor, or a crash there): not this program's failure."""


class EngineRefusedError(EngineError):
    """The engine's behaviors do not match the run; the text says which behavior differs and how."""


class VersionError(EngineError):
    """The engine uses an unsupported protocol version."""


class ActorError(EngineError):
    """An actor's process ended or cannot be started."""


class ClusterError(TauError):
    """A Ray cluster cannot be started or reached, or its nodes lack something that the run needs."""


class DecodeError(EngineError):
    """The engine sent bytes that do not follow the protocol, or numbers that are not finite."""


class CallbackError(TauError):
    """A user's callback raised an exception; the text names the callback."""


class LearnerError(TauError):
    """A learner's process ended or cannot be started."""


class CheckpointError(TauError):
    """A checkpoint is missing, damaged, or belongs to other settings."""


class ExportError(TauError):
    """A model cannot be exported, or the exported model's outputs differ from the network's."""


class HubError(TauError):
    """A download from or an upload to the Hugging Face Hub failed."""


class NonFiniteError(TauError):
    """NaN or infinity in training; the text names the behavior and the tensor."""


class StalledError(TauError):
    """No progress for too long; the text says which part waits for which."""


_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")
"""Texts of torch's RuntimeError if memory is full."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error means that the memory of the machine or of a device is full."""
    full = isinstance(error, RuntimeError) and any(text in str(error).lower() for text in _NO_MEMORY)
    return full or isinstance(error, MemoryError)


def sentence_of(error: Exception) -> str:
    """An error as one sentence: a TauError's own text; any other error is named as an internal error, with its type."""
    return str(error) if isinstance(error, TauError) else f"internal error: {type(error).__name__}: {error}"
