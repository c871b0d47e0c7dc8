namespace Tau.Core
{
    /// <summary>Where a pair stands.</summary>
    public enum PairState
    {
        /// <summary>Not started, waiting for a slot, or between two decisions.</summary>
        Idle,

        /// <summary>The next prompt is being drawn.</summary>
        Preparing,

        /// <summary>A decision was asked for and is not answered yet.</summary>
        Training,

        /// <summary>All decisions of the run are answered.</summary>
        Completed,

        /// <summary>An error ended the pair; its sentence is in the metrics.</summary>
        Failed,

        /// <summary>The run was cancelled before the pair had all its decisions.</summary>
        Cancelled,
    }
}
