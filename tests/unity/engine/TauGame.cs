using System;
using System.Collections.Generic;
using System.Globalization;
using System.Threading;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>
    /// The Tau game of one engine: pairs that see a prompt and answer, step by step. When all pairs have had their
    /// decisions, their next round begins, so that an engine never falls silent; accuracies in the report of a later
    /// round count from the first one on.
    /// </summary>
    internal sealed class TauGame : IDisposable
    {
        /// <summary>Full name of the behavior.</summary>
        public const string Behavior = "TauAgent?team=0";

        private const int DefaultPairs = 32;

        private readonly TauOptions _options;
        private readonly EnvironmentParameters _parameters;
        private readonly EngineLog _log;
        private readonly TauTask _task;
        private readonly TauStats _stats;
        private readonly WireAgent[] _agents;
        private readonly PumpContext _pump = new PumpContext();
        private readonly List<AgentRecord> _records = new List<AgentRecord>();
        private readonly List<WireAgent> _asking = new List<WireAgent>();
        private readonly float[] _action;
        private TauRound _round;
        private long _seed;
        private int _rounds;
        private int _exchanges;

        /// <summary>A game whose pairs have begun.</summary>
        /// <param name="options">What the command line says.</param>
        /// <param name="dataset">Loaded already.</param>
        /// <param name="parameters">What the trainer says, which comes first; followed later too.</param>
        /// <param name="trainer">Its introduction: seed and areas.</param>
        /// <param name="log">Takes the central reports.</param>
        /// <exception cref="TauException">The parameters mean nothing, or do not fit the data set.</exception>
        public TauGame(
            TauOptions options,
            TauDataset dataset,
            EnvironmentParameters parameters,
            TrainerMessage trainer,
            EngineLog log)
        {
            _options = options;
            _parameters = parameters;
            _log = log;
            _seed = (long?)parameters.Get("seed") ?? options.Seed ?? trainer.Seed;
            var profile = parameters.Get("profile") is float index
                ? TauProfile.ByIndex(index)
                : TauProfile.Get(options.Profile);
            TargetSensor = parameters.Get("target_sensor") is float flag ? flag != 0f : options.TargetSensor;
            _task = new TauTask(dataset, profile, options.Rules);
            _task.Update(parameters.Get);
            _stats = new TauStats(_task);
            _action = new float[profile.ActionSize];
            _agents = new WireAgent[Count(trainer.Areas)];
            for (var id = 0; id < _agents.Length; id++)
            {
                _agents[id] = new WireAgent(id);
            }

            SynchronizationContext.SetSynchronizationContext(_pump);
            BeginRound();
        }

        /// <summary>Whether the trainer is told the answers' vectors.</summary>
        public bool TargetSensor { get; }

        /// <summary>How long an action is.</summary>
        public int ActionSize => _action.Length;

        /// <summary>How many pairs there are.</summary>
        public int Pairs => _agents.Length;

        /// <summary>Takes note of every decision; null: nobody does.</summary>
        public DecisionLog Decisions { get; set; }

        /// <summary>Statistics that are new since the last message.</summary>
        public IReadOnlyList<TauStat> TakeStats()
        {
            return _stats.Take();
        }

        /// <summary>
        /// Play on to the next message: agents whose episode ended, then those that ask, both by number.
        /// </summary>
        /// <returns>Valid until the next call.</returns>
        /// <exception cref="TauException">No pair can play any more.</exception>
        public List<AgentRecord> Collect()
        {
            _pump.Pump();
            if (_round.Over)
            {
                EndRound();
                BeginRound();
            }

            _round.Step();
            _records.Clear();
            _asking.Clear();
            foreach (var agent in _agents)
            {
                agent.CollectEnd(_records);
            }

            foreach (var agent in _agents)
            {
                if (agent.Asks)
                {
                    _asking.Add(agent);
                }

                agent.CollectRequest(_records);
            }

            return _records;
        }

        /// <summary>Give every agent that asked its action; no actions at all are zeros.</summary>
        /// <exception cref="TauException">There are too few or too many, or one is NaN.</exception>
        public void Answer(TrainerMessage reply)
        {
            if (reply.ActionCount != _asking.Count && reply.ActionCount != 0)
            {
                throw new TauException(
                    $"The trainer sent {reply.ActionCount} actions of behavior `{Behavior}` for the {_asking.Count} " +
                    "agents that asked; send one for each, in the order they were listed.");
            }

            Array.Clear(_action, 0, _action.Length);
            for (var i = 0; i < _asking.Count; i++)
            {
                var agent = _asking[i];
                if (reply.ActionCount > 0)
                {
                    reply.CopyAction(i, _action);
                    RefuseNaN(agent);
                }

                agent.TakeAction();
                _round.Answer(agent.Id, _action);
                Decisions?.Add(_exchanges, agent, _action);
            }

            _exchanges++;
        }

        /// <summary>Follow environment parameters that came with a step.</summary>
        /// <exception cref="TauException">They mean nothing.</exception>
        public void Follow()
        {
            _task.Update(_parameters.Get);
        }

        /// <summary>
        /// Begin all episodes anew, without ending the old ones for the trainer, as Unity's reset does.
        /// </summary>
        /// <exception cref="TauException">The environment parameters mean nothing.</exception>
        public void Reset()
        {
            var seed = (long?)_parameters.Get("seed");
            _seed = seed ?? _seed;
            Follow();
            foreach (var agent in _agents)
            {
                agent.Forget();
            }

            _round.Reset(seed);
            _exchanges++;
        }

        /// <summary>End the game: cancel what runs, and log the central report.</summary>
        public void Dispose()
        {
            _round.Dispose();
            _pump.Pump();
            _log.Write($"central report of round {_rounds}\n{_round.Report.ToText()}");
            Decisions?.Dispose();
        }

        private int Count(int areas)
        {
            var agents = _parameters.Get("num_agents") ?? _options.Pairs ?? DefaultPairs;
            var count = Math.Floor((double)agents) * Math.Max(areas, 1);
            return count >= 1 && count <= TauOptions.MostPairs
                ? (int)count
                : throw new TauException(
                    $"Environment parameter `num_agents` and the number of areas ask for " +
                    $"{count.ToString("0", CultureInfo.InvariantCulture)} agents; give 1 to {TauOptions.MostPairs}.");
        }

        /// <summary>A round of all pairs; its prompts differ from those of the rounds before.</summary>
        private void BeginRound()
        {
            var seed = _rounds == 0 ? _seed : new AgentRandom(_seed, _rounds).Next(int.MaxValue);
            _stats.BeginRound();
            _round = new TauRound(_task, _agents, _options, seed, _stats);
            _rounds++;
        }

        private void EndRound()
        {
            _log.Write($"round {_rounds} of {Pairs} pairs is over; central report\n{_round.Report.ToText()}");
            _round.ThrowIfLost();
            _round.Dispose();
        }

        private void RefuseNaN(WireAgent agent)
        {
            foreach (var value in _action)
            {
                if (float.IsNaN(value))
                {
                    throw new TauException(
                        $"The trainer sent NaN as an action of behavior `{Behavior}` for agent {agent.Id}; " +
                        "its policy has diverged.");
                }
            }
        }
    }
}
