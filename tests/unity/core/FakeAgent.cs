using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;

namespace Tau.Core.Tests
{
    /// <summary>
    /// An agent that remembers every call. Its policy says when and what it answers: at once, later, or never.
    /// </summary>
    public sealed class FakeAgent : ITauAgent
    {
        private readonly Action<FakeAgent> _policy;

        /// <summary>An agent with this policy, called in every request; null: it never answers by itself.</summary>
        public FakeAgent(Action<FakeAgent> policy = null)
        {
            _policy = policy;
        }

        /// <summary>The other half of the pair.</summary>
        public AgentTrainer Trainer { get; set; }

        /// <summary>Names of all calls, in order.</summary>
        public List<string> Calls { get; } = new List<string>();

        /// <summary>Prompts, by request.</summary>
        public List<float[]> Prompts { get; } = new List<float[]>();

        /// <summary>Targets, by request.</summary>
        public List<float[]> Targets { get; } = new List<float[]>();

        /// <summary>Rewards, in order.</summary>
        public List<float> Rewards { get; } = new List<float>();

        /// <summary>Name of the call that throws; null: none.</summary>
        public string Broken { get; set; }

        /// <summary>Told of every call, before it is done.</summary>
        public Action<string> Watch { get; set; } = _ => { };

        /// <summary>Between Activate and Deactivate.</summary>
        public bool Active { get; private set; }

        /// <summary>An agent that always outputs this number, at once.</summary>
        public static FakeAgent Constant(float value)
        {
            return new FakeAgent(agent => agent.Answer(value));
        }

        /// <summary>An agent that is always right, at once.</summary>
        public static FakeAgent Right()
        {
            return new FakeAgent(agent => agent.Trainer.Answer(agent.Targets.Last()));
        }

        /// <summary>Makes the other half of the pair.</summary>
        public AgentTrainer Train(
            TauTask task, long seed = 1, int id = 0, TauStats stats = null, RewardWindow window = null)
        {
            Trainer = new AgentTrainer(id, task, this, seed, window, stats);
            Trainer.Initialize();
            return Trainer;
        }

        /// <summary>The same, with a run that has begun and has no end.</summary>
        public AgentTrainer Start(TauTask task, long seed = 1, int id = 0)
        {
            Train(task, seed, id).RunAsync(0, CancellationToken.None);
            return Trainer;
        }

        /// <summary>Gives an action with this number everywhere.</summary>
        public void Answer(float value)
        {
            Trainer.Answer(Enumerable.Repeat(value, Targets.Last().Length).ToArray());
        }

        /// <summary>How often the call was made.</summary>
        public int Count(string call)
        {
            return Calls.Count(name => name == call);
        }

        /// <summary>See <see cref="ITauAgent"/>.</summary>
        public void Activate()
        {
            Note(nameof(Activate));
            Active = true;
        }

        /// <summary>See <see cref="ITauAgent"/>.</summary>
        public void Deactivate()
        {
            Active = false;
            Note(nameof(Deactivate));
        }

        /// <summary>See <see cref="ITauAgent"/>.</summary>
        public void RequestDecision(float[] prompt, float[] target)
        {
            Prompts.Add(prompt);
            Targets.Add(target);
            Note(nameof(RequestDecision));
            _policy?.Invoke(this);
        }

        /// <summary>See <see cref="ITauAgent"/>.</summary>
        public void SetReward(float reward)
        {
            Rewards.Add(reward);
            Note(nameof(SetReward));
        }

        /// <summary>See <see cref="ITauAgent"/>.</summary>
        public void EndEpisode()
        {
            Note(nameof(EndEpisode));
        }

        /// <summary>See <see cref="ITauAgent"/>.</summary>
        public void EpisodeInterrupted()
        {
            Note(nameof(EpisodeInterrupted));
        }

        private void Note(string call)
        {
            Calls.Add(call);
            Watch(call);
            if (Broken == call)
            {
                throw new FormatException("the " + call + " is broken.");
            }
        }
    }
}
