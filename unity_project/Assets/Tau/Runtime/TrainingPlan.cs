using System;
using Tau.Core;
using Unity.MLAgents;
using UnityEngine;

namespace Tau
{
    /// <summary>
    /// What is trained, how many pairs, how long: from the options, and where these say nothing, from the trainer's
    /// environment parameters, as in the editor, which has no command line for a trainer to fill.
    /// </summary>
    internal sealed class TrainingPlan
    {
        private const int UsualPairs = 32;

        private readonly TauOptions _options;
        private readonly bool _targetSensor;
        private readonly int _maxConcurrent;
        private readonly long _seed;

        /// <summary>Resolves the options and loads the data set.</summary>
        /// <exception cref="TauException">An option or a parameter is wrong, or the data cannot be used.</exception>
        public TrainingPlan(TauOptions options, Academy academy)
        {
            _options = options;
            var parameters = new EngineParameters(academy);
            Pairs = options.Pairs ?? Math.Max(academy.NumAreas, 1) * (parameters.Count("num_agents") ?? UsualPairs);
            _maxConcurrent = options.MaxConcurrent ?? parameters.Count("max_concurrent") ?? Pairs;
            _targetSensor = options.TargetSensor || (parameters.Get("target_sensor") ?? 0f) != 0f;
            _seed = options.Seed ?? (long?)parameters.Get("seed") ?? UnityEngine.Random.Range(0, int.MaxValue);
            Quota = QuotaOf(options, Pairs, _maxConcurrent);
            TauProfile profile = ProfileOf(options, parameters);
            Task = new TauTask(TauData.Open(options.Data), profile, options.Rules);
            Task.Update(parameters.Get);
            Stats = new TauStats(Task);
        }

        /// <summary>The task, shared by all pairs of all rounds.</summary>
        public TauTask Task { get; }

        /// <summary>Statistics of all pairs; they go on from round to round.</summary>
        public TauStats Stats { get; }

        /// <summary>Number of pairs.</summary>
        public int Pairs { get; }

        /// <summary>Decisions of each pair in a round; 0: without end.</summary>
        public long Quota { get; }

        /// <summary>What will run, in one sentence.</summary>
        public string Sentence()
        {
            string skipped = Task.Dataset.SkippedSentence();
            return FormattableString.Invariant(
                $"Training {Pairs} pairs, at most {_maxConcurrent} at a time, on {Task.Dataset.Source} ")
                + FormattableString.Invariant($"({Task.Rows.Count} rows, profile {Task.Profile.Name}, seed {_seed}).")
                + (skipped == null ? "" : " " + skipped);
        }

        /// <summary>New pairs, not started: agents hang under <paramref name="parent"/>.</summary>
        /// <param name="parent">Where the agents hang in the scene.</param>
        /// <param name="round">From 0; each has streams of prompts of its own.</param>
        public ParallelTrainer MakePairs(Transform parent, int round)
        {
            var pairs = new AgentTrainerPair[Pairs];
            for (var id = 0; id < Pairs; id++)
            {
                pairs[id] = MakePair(parent, id, unchecked(_seed + round));
            }
            return new ParallelTrainer(pairs, _maxConcurrent, Stats);
        }

        private AgentTrainerPair MakePair(Transform parent, int id, long seed)
        {
            TauAgent agent = TauAgent.Create(
                parent, FormattableString.Invariant($"TauAgent {id}"), Task.Profile, _targetSensor);
            var window = new RewardWindow(_options.Aggregate, _options.Window, _options.Values);
            var trainer = new AgentTrainer(id, Task, agent, seed, window, Stats);
            agent.Connect(trainer.Answer);
            return new AgentTrainerPair(trainer, agent, Quota);
        }

        /// <summary>As <see cref="TauOptions.Quota(int)"/>, also where the trainer says how many take turns.</summary>
        private static long QuotaOf(TauOptions options, int pairs, int maxConcurrent)
        {
            long quota = options.Quota(pairs);
            if (maxConcurrent >= pairs || quota > 0)
            {
                return quota;
            }
            if (options.Given("--tau-decisions"))
            {
                throw new TauException(FormattableString.Invariant(
                    $"--tau-decisions: 0 is without end, and with {maxConcurrent} of {pairs} pairs at a time ")
                    + "the others would never get their turn; give a number of decisions.");
            }
            return TauOptions.DefaultDecisions;
        }

        private static TauProfile ProfileOf(TauOptions options, EngineParameters parameters)
        {
            float? index = options.Given("--tau-profile") ? null : parameters.Get("profile");
            return index.HasValue ? TauProfile.ByIndex(index.Value) : TauProfile.Get(options.Profile);
        }
    }
}
