namespace Tau.Core
{
    /// <summary>What one pair has counted since it was made.</summary>
    internal sealed class PairTally
    {
        private double _reward;
        private double _aggregated;
        private long _successes;
        private long _episodes;

        /// <summary>Answered decisions.</summary>
        public long Decisions { get; private set; }

        /// <summary>Counts an answer.</summary>
        public void Add(double reward, bool success, double aggregated)
        {
            Decisions++;
            _reward += reward;
            _successes += success ? 1 : 0;
            _aggregated += aggregated;
        }

        /// <summary>Counts an episode that has ended.</summary>
        public void AddEpisode()
        {
            _episodes++;
        }

        /// <summary>The counts, and means where there is anything to average.</summary>
        public PairMetrics Metrics(int id, PairState state, double accuracy, string error)
        {
            return new PairMetrics(
                id, state, Decisions, _episodes, Mean(_reward), Mean(_successes), Mean(_aggregated), accuracy, error);
        }

        private double Mean(double sum)
        {
            return Decisions > 0 ? sum / Decisions : double.NaN;
        }
    }
}
