namespace Tau.Core
{
    /// <summary>How the trainer joins several values of a statistic; the numbers are ML-Agents'.</summary>
    public enum TauStatKind
    {
        /// <summary>Their mean.</summary>
        Average = 0,

        /// <summary>The last one.</summary>
        MostRecent = 1,
    }
}
