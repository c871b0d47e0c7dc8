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
        private readonly int _pairs;
        private readonly bool _targetSensor;
        private readonly int _maxConcurrent;
        private readonly long _seed;

        /// <summary>Resolves the options and loads the data set.</summary>
        /// <exception cref="TauException">An option or a parameter is wrong, or the data cannot be used.</exception>
        public TrainingPlan(TauOptions options, Academy academy)
        {
            _options = options;
            var parameters = new EngineParameters(academy);
            _pairs = options.Pairs ?? Math.Max(academy.NumAreas, 1) * (parameters.Count("num_agents") ?? UsualPairs);
            _maxConcurrent = options.MaxConcurrent ?? parameters.Count("max_concurrent") ?? _pairs;
            _targetSensor = options.TargetSensor || (parameters.Get("target_sensor") ?? 0f) != 0f;
            _seed = options.Seed ?? (long?)parameters.Get("seed") ?? UnityEngine.Random.Range(0, int.MaxValue);
            Quota = options.Quota(_pairs, _maxConcurrent);
            float? index = options.Profile == null ? parameters.Get("profile") : null;
            TauProfile profile = index.HasValue
                ? TauProfile.ByIndex(index.Value)
                : TauProfile.Get(options.Profile ?? "tau3");
            Task = new TauTask(TauData.Open(options.Data), profile, options.Rules);
            Task.Update(parameters.Get);
            Stats = new TauStats(Task);
        }

        /// <summary>The task, shared by all pairs of all rounds.</summary>
        public TauTask Task { get; }

        /// <summary>Statistics of all pairs; they go on from round to round.</summary>
        public TauStats Stats { get; }

        /// <summary>Decisions of each pair in a round; 0: without end.</summary>
        public long Quota { get; }

        /// <summary>What will run, in one sentence.</summary>
        public string Sentence()
        {
            return FormattableString.Invariant(
                $"Training {_pairs} pairs, at most {_maxConcurrent} at a time, on {Task.Dataset.Source} ")
                + FormattableString.Invariant($"({Task.Rows.Count} rows, profile {Task.Profile.Name}, seed {_seed}). ")
                + Task.Dataset.SkippedSentence();
        }

        /// <summary>New pairs, not started: agents hang under <paramref name="parent"/>.</summary>
        /// <param name="parent">Where the agents hang in the scene.</param>
        /// <param name="round">From 0; each has streams of prompts of its own.</param>
        public ParallelTrainer MakePairs(Transform parent, int round)
        {
            var pairs = new AgentTrainerPair[_pairs];
            for (var id = 0; id < _pairs; id++)
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
    }
}
