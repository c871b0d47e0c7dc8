namespace Tau.Core
{
    /// <summary>A pair's state.</summary>
    public enum PairState
    {
        /// <summary>Not started, waiting for a slot, or between two decisions.</summary>
        Idle,

        /// <summary>Draws the next prompt.</summary>
        Preparing,

        /// <summary>Waits for the answer to a decision.</summary>
        Training,

        /// <summary>All decisions of the run are answered.</summary>
        Completed,

        /// <summary>An error ended the pair; its sentence is in the metrics.</summary>
        Failed,

        /// <summary>The run was cancelled before the pair's last decision.</summary>
        Cancelled,
    }

    /// <summary>Results of one pair; means are NaN if nothing was counted.</summary>
    public sealed class PairMetrics
    {
        /// <summary>The pair's number.</summary>
        public int Id { get; internal set; }

        /// <summary>The pair's state; between two decisions of a run it counts as training.</summary>
        public PairState State { get; internal set; }

        /// <summary>Answered decisions.</summary>
        public long Decisions { get; internal set; }

        /// <summary>Episodes that ended by the rules; an episode cut by the end of the run is not counted.</summary>
        public long Episodes { get; internal set; }

        /// <summary>Mean reward of a decision, by the active formula.</summary>
        public double MeanReward { get; internal set; }

        /// <summary>Share of decisions with every component within the threshold, 0 to 1.</summary>
        public double SuccessRate { get; internal set; }

        /// <summary>Mean over decisions of the binary reward, aggregated over the pair's window.</summary>
        public double AggregatedReward { get; internal set; }

        /// <summary>Share of decisions whose nearest answer is the right one, 0 to 1. Reward is not accuracy.</summary>
        public double Accuracy { get; internal set; }

        /// <summary>The error that ended the pair, one sentence; null: no error.</summary>
        public string Error { get; internal set; }
    }
}
