using System;
using System.Threading;
using System.Threading.Tasks;
using Tau.Core;
using Unity.MLAgents;
using UnityEngine;

namespace Tau
{
    /// <summary>All pairs of a training from their start to their end, with their agents in the scene.</summary>
    internal sealed class TrainingRound : IDisposable
    {
        private readonly GameObject _agents = new GameObject("Tau Agents");
        private readonly TauStats _stats;
        private readonly ParallelTrainer _trainer;

        /// <summary>New pairs, not started.</summary>
        /// <param name="plan">What to train.</param>
        /// <param name="number">From 0; each round has streams of prompts of its own.</param>
        public TrainingRound(TrainingPlan plan, int number)
        {
            try
            {
                _stats = plan.Stats;
                _stats.BeginRound();
                _trainer = plan.MakePairs(_agents.transform, number);
            }
            catch
            {
                UnityEngine.Object.Destroy(_agents);
                throw;
            }
        }

        /// <summary>Starts the pairs; ends when all of them have ended.</summary>
        public Task<CentralReport> RunAsync(CancellationToken token)
        {
            return _trainer.RunAsync(token);
        }

        /// <summary>Before every step of the academy: pairs ask for decisions, statistics go out.</summary>
        public void Step(StatsRecorder recorder)
        {
            _trainer.Step();
            foreach (TauStat stat in _stats.Take())
            {
                recorder.Add(stat.Key, stat.Value, stat.Kind == TauStatKind.MostRecent
                    ? StatAggregationMethod.MostRecent
                    : StatAggregationMethod.Average);
            }
        }

        /// <summary>The trainer reset the environment.</summary>
        public void Reset()
        {
            _trainer.Reset();
        }

        /// <summary>What the pairs have done so far.</summary>
        public CentralReport Report()
        {
            return _trainer.Report();
        }

        /// <summary>Ends what still runs, and takes the agents out of the scene.</summary>
        public void Dispose()
        {
            _trainer.Dispose();
            if (_agents != null)
            {
                UnityEngine.Object.Destroy(_agents);
            }
        }
    }
}
