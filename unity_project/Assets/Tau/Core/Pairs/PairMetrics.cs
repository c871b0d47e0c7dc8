namespace Tau.Core
{
    /// <summary>What one pair has done; means are NaN where nothing was counted.</summary>
    public sealed class PairMetrics
    {
        /// <summary>A snapshot with these values.</summary>
        public PairMetrics(
            int id,
            PairState state,
            long decisions,
            long episodes,
            double meanReward,
            double successRate,
            double aggregatedReward,
            double accuracy,
            string error)
        {
            Id = id;
            State = state;
            Decisions = decisions;
            Episodes = episodes;
            MeanReward = meanReward;
            SuccessRate = successRate;
            AggregatedReward = aggregatedReward;
            Accuracy = accuracy;
            Error = error;
        }

        /// <summary>The pair's number.</summary>
        public int Id { get; }

        /// <summary>Where the pair stands.</summary>
        public PairState State { get; }

        /// <summary>Answered decisions.</summary>
        public long Decisions { get; }

        /// <summary>Episodes that have ended by the rules; one that the end of the run cuts is not counted.</summary>
        public long Episodes { get; }

        /// <summary>Mean reward of a decision, by the formula that was played.</summary>
        public double MeanReward { get; }

        /// <summary>Share of decisions with every component within the threshold, 0 to 1.</summary>
        public double SuccessRate { get; }

        /// <summary>Mean over decisions of the binary reward, aggregated over the pair's window.</summary>
        public double AggregatedReward { get; }

        /// <summary>Share of decisions whose nearest answer is the right one, 0 to 1. Reward is not accuracy.</summary>
        public double Accuracy { get; }

        /// <summary>What ended the pair, one sentence; null: no error.</summary>
        public string Error { get; }
    }
}
