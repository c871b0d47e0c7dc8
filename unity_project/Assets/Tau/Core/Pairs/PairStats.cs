using System;
using System.Collections.Generic;

namespace Tau.Core
{
    /// <summary>One pair's share in the statistics: its rewards since the last report, its right answers.</summary>
    internal sealed class PairStats
    {
        private readonly string _key;
        private readonly bool _reported;
        private double _reward;
        private int _rewards;
        private long _decoded;
        private long _right;

        /// <summary>Nothing is counted yet.</summary>
        /// <param name="id">The pair's number.</param>
        public PairStats(int id)
        {
            _key = FormattableString.Invariant($"Tau/Pair {id}/Mean Reward");
            _reported = id < TauStats.MostPairs;
        }

        /// <summary>Share of right answers since the pair began; NaN: there is none.</summary>
        public double Accuracy => _decoded > 0 ? (double)_right / _decoded : double.NaN;

        /// <summary>A new pair takes this number.</summary>
        public void Begin()
        {
            _decoded = 0;
            _right = 0;
        }

        /// <summary>An answer was decoded.</summary>
        public void AddDecoded(bool right)
        {
            _decoded++;
            _right += right ? 1 : 0;
        }

        /// <summary>An answer enters the next report.</summary>
        public void AddReward(double reward)
        {
            _reward += reward;
            _rewards++;
        }

        /// <summary>Adds the mean reward since the last report, if there is any.</summary>
        public void Report(List<TauStat> stats)
        {
            if (_reported && _rewards > 0)
            {
                stats.Add(TauStat.Mean(_key, _reward, _rewards));
            }
            _reward = 0.0;
            _rewards = 0;
        }
    }
}
