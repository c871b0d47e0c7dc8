namespace Tau.Engine
{
    /// <summary>How a decision ended its agent's episode; also the number in a decision log.</summary>
    internal enum EpisodeEnding
    {
        /// <summary>It goes on.</summary>
        None = 0,

        /// <summary>For real.</summary>
        Terminal = 1,

        /// <summary>Cut by a limit.</summary>
        Interrupted = 2,
    }
}
