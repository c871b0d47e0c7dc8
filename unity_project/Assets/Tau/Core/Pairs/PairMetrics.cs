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

    /// <summary>What one pair has done; means are NaN where nothing was counted.</summary>
    public sealed class PairMetrics
    {
        /// <summary>The pair's number.</summary>
        public int Id { get; internal set; }

        /// <summary>Where the pair stands; between two decisions of a run it counts as training.</summary>
        public PairState State { get; internal set; }

        /// <summary>Answered decisions.</summary>
        public long Decisions { get; internal set; }

        /// <summary>Episodes that have ended by the rules; one that the end of the run cuts is not counted.</summary>
        public long Episodes { get; internal set; }

        /// <summary>Mean reward of a decision, by the formula that was played.</summary>
        public double MeanReward { get; internal set; }

        /// <summary>Share of decisions with every component within the threshold, 0 to 1.</summary>
        public double SuccessRate { get; internal set; }

        /// <summary>Mean over decisions of the binary reward, aggregated over the pair's window.</summary>
        public double AggregatedReward { get; internal set; }

        /// <summary>Share of decisions whose nearest answer is the right one, 0 to 1. Reward is not accuracy.</summary>
        public double Accuracy { get; internal set; }

        /// <summary>What ended the pair, one sentence; null: no error.</summary>
        public string Error { get; internal set; }
    }
}
