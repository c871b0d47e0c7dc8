using System.Collections.Generic;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>
    /// The acting side of a pair as rows of an engine's messages. Behaves as an ML-Agents agent: a reward travels with
    /// the agent's next record, and an agent that is switched off in the middle of an episode ends it for real.
    /// </summary>
    internal sealed class WireAgent : ITauAgent
    {
        private float[] _prompt;
        private float[] _target;
        private AgentRecord? _ended;
        private bool _seen;

        /// <summary>An agent with this number.</summary>
        public WireAgent(int id)
        {
            Id = id;
        }

        /// <summary>The agent's number, which stays while it comes and goes.</summary>
        public int Id { get; }

        /// <summary>Whether the pair's run has begun and not ended.</summary>
        public bool Active { get; private set; }

        /// <summary>Whether a decision is asked for.</summary>
        public bool Asks { get; private set; }

        /// <summary>Reward since the last record.</summary>
        public float Reward { get; private set; }

        /// <summary>Reward of the last action.</summary>
        public float LastReward { get; private set; }

        /// <summary>What the last action did to the episode.</summary>
        public EpisodeEnding LastEnding { get; private set; }

        /// <summary>The prompt that was asked about last.</summary>
        public float[] Prompt => _prompt;

        /// <inheritdoc/>
        public void Activate()
        {
            Active = true;
            Asks = false;
            Reward = 0f;
        }

        /// <inheritdoc/>
        public void Deactivate()
        {
            Active = false;
            Asks = false;
            if (_seen)
            {
                End(EpisodeEnding.Terminal);
            }
        }

        /// <inheritdoc/>
        public void RequestDecision(float[] prompt, float[] target)
        {
            _prompt = prompt;
            _target = target;
            Asks = true;
        }

        /// <inheritdoc/>
        public void SetReward(float reward)
        {
            Reward = reward;
            LastReward = reward;
            LastEnding = EpisodeEnding.None;
        }

        /// <inheritdoc/>
        public void EndEpisode()
        {
            End(EpisodeEnding.Terminal);
        }

        /// <inheritdoc/>
        public void EpisodeInterrupted()
        {
            End(EpisodeEnding.Interrupted);
        }

        /// <summary>The action has come: nothing is asked for any more.</summary>
        public void TakeAction()
        {
            Asks = false;
        }

        /// <summary>The trainer reset the environment: what it was not told yet, it is never told.</summary>
        public void Forget()
        {
            _ended = null;
            _seen = false;
            Asks = false;
            Reward = 0f;
        }

        /// <summary>Append the record of an episode that ended since the last message, if one did.</summary>
        public void CollectEnd(List<AgentRecord> records)
        {
            if (_ended.HasValue)
            {
                records.Add(_ended.Value);
                _ended = null;
            }
        }

        /// <summary>Append the record of a decision that is asked for, if one is.</summary>
        public void CollectRequest(List<AgentRecord> records)
        {
            if (Asks)
            {
                records.Add(new AgentRecord(Id, Reward, false, false, _prompt, _target));
                Reward = 0f;
                _seen = true;
            }
        }

        private void End(EpisodeEnding ending)
        {
            LastEnding = ending;
            _ended = new AgentRecord(Id, Reward, true, ending == EpisodeEnding.Interrupted, _prompt, _target);
            _seen = false;
            Reward = 0f;
        }
    }
}
