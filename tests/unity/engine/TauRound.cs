using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>One run of all pairs to the end of their decisions.</summary>
    internal sealed class TauRound : IDisposable
    {
        private readonly CancellationTokenSource _cancel = new CancellationTokenSource();
        private readonly ParallelTrainer _parallel;
        private readonly AgentTrainer[] _trainers;
        private readonly Task<CentralReport> _run;

        /// <summary>Make the pairs and begin.</summary>
        /// <param name="task">What they learn.</param>
        /// <param name="agents">Their acting sides, by number.</param>
        /// <param name="options">How many run at once, and for how many decisions.</param>
        /// <param name="seed">Where the streams of prompts begin.</param>
        /// <param name="stats">Takes note of every answer.</param>
        /// <exception cref="TauException">The options cannot be followed.</exception>
        public TauRound(
            TauTask task, IReadOnlyList<WireAgent> agents, TauOptions options, long seed, TauStats stats)
        {
            _trainers = new AgentTrainer[agents.Count];
            var pairs = new AgentTrainerPair[agents.Count];
            var quota = options.Quota(pairs.Length);
            for (var i = 0; i < pairs.Length; i++)
            {
                var window = new RewardWindow(options.Aggregate, options.Window, options.Values);
                _trainers[i] = new AgentTrainer(agents[i].Id, task, agents[i], seed, window, stats);
                pairs[i] = new AgentTrainerPair(_trainers[i], agents[i], quota);
            }

            var slots = Math.Min(options.MaxConcurrent ?? pairs.Length, pairs.Length);
            _parallel = new ParallelTrainer(pairs, slots, stats);
            _run = _parallel.RunAsync(_cancel.Token);
        }

        /// <summary>Whether all pairs have ended.</summary>
        public bool Over => _run.IsCompleted;

        /// <summary>What the pairs have done so far.</summary>
        public CentralReport Report => _parallel.Report();

        /// <summary>Let the pairs ask for their next decision.</summary>
        public void Step()
        {
            _parallel.Step();
        }

        /// <summary>Hand an agent's action to its pair.</summary>
        public void Answer(int agent, float[] action)
        {
            _trainers[agent].Answer(action);
        }

        /// <summary>Begin all episodes anew; with a seed also the streams of prompts.</summary>
        public void Reset(long? seed)
        {
            if (seed.HasValue)
            {
                _parallel.Seed(seed.Value);
            }

            _parallel.Reset();
        }

        /// <summary>Raise what ended the round, if it was not its pairs' own end.</summary>
        /// <exception cref="TauException">All pairs have failed.</exception>
        public void ThrowIfLost()
        {
            if (_run.IsFaulted)
            {
                _run.GetAwaiter().GetResult();
            }

            var failed = Report.Pairs.Where(pair => pair.State == PairState.Failed).ToArray();
            if (failed.Length == _trainers.Length)
            {
                throw new TauException($"All {failed.Length} pairs have failed; the first because: {failed[0].Error}");
            }
        }

        /// <summary>Cancel what still runs.</summary>
        public void Dispose()
        {
            _cancel.Cancel();
            _parallel.Dispose();
            _cancel.Dispose();
        }
    }
}
