using System;
using Tau.Core;
using Unity.MLAgents;
using UnityEngine;

namespace Tau
{
    /// <summary>
    /// The task, the number of pairs and their decisions. They come from the options, else from the trainer's
    /// environment parameters; the editor, for example, has no command line that a trainer can fill.
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

        /// <summary>Statistics of all pairs; they continue from round to round.</summary>
        public TauStats Stats { get; }

        /// <summary>Decisions of each pair in a round; 0: unlimited.</summary>
        public long Quota { get; }

        /// <summary>A description of the training in one sentence.</summary>
        public string Sentence()
        {
            return FormattableString.Invariant(
                $"Training {_pairs} pairs, at most {_maxConcurrent} at a time, on {Task.Dataset.Source} ")
                + FormattableString.Invariant($"({Task.Rows.Count} rows, profile {Task.Profile.Name}, seed {_seed}). ")
                + Task.Dataset.SkippedSentence();
        }

        /// <summary>New pairs, not started.</summary>
        /// <<param name="parent">The agents' parent in the scene.</param>
        /// <param name="round">From 0; each has its own streams of prompts.</param>
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
