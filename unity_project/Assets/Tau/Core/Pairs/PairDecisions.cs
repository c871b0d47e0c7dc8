using System;
using System.Linq;

namespace Tau.Core
{
    /// <summary>One pair's decisions: draws prompts, rewards and counts answers, tracks episodes.</summary>
    internal sealed class PairDecisions
    {
        private readonly int _id;
        private readonly TauTask _task;
        private readonly RewardWindow _window;
        private readonly TauStats _stats;
        private readonly Episode _episode = new Episode();
        private readonly AgentRandom _random;
        private readonly float[] _output;
        private int _answer;
        private long _episodes;
        private long _successes;
        private double _reward;
        private double _aggregated;

        /// <summary>Draws nothing yet. See <see cref="AgentTrainer"/> for the parameters.</summary>
        public PairDecisions(int id, TauTask task, long seed, RewardWindow window, TauStats stats)
        {
            _id = id;
            _task = task ?? throw new ArgumentNullException(nameof(task));
            _window = window ?? new RewardWindow();
            _stats = stats;
            _output = new float[task.Profile.ActionSize];
            _random = new AgentRandom(seed, id);
        }

        /// <summary>Answered decisions.</summary>
        public long Count { get; private set; }

        /// <summary>Starts a new episode.</summary>
        public void BeginEpisode()
        {
            _episode.Begin();
            _window.Clear();
        }

        /// <summary>Draws the next prompt, uniformly with replacement.</summary>
        public void Draw(out float[] prompt, out float[] target)
        {
            var row = _random.Next(_task.Rows.Count);
            _answer = _task.Rows.AnswerIndex[row];
            prompt = _task.Rows.Prompts[row];
            target = _task.Targets[_answer];
        }

        /// <summary>Clips, rewards and counts the answer to the last prompt.</summary>
        /// <exception cref="TauException">The answer has the wrong size or is NaN; nothing has changed.</exception>
        public EpisodeEnd Pay(float[] output, out double reward)
        {
            Clip(output, _output, FormattableString.Invariant($"agent {_id}"), _task.Profile);
            reward = _task.Reward(_output, _answer);
            var success = _task.Succeeds(_output, _answer);
            var aggregated = _window.Push(success);
            Count++;
            _reward += reward;
            _successes += success ? 1 : 0;
            _aggregated += aggregated;
            _stats?.Add(_id, _output, _answer, reward, success, aggregated);
            var end = _episode.Add(reward, _task.Rules);
            if (end != EpisodeEnd.None)
            {
                _window.Clear();
                _episodes++;
            }
            return end;
        }

        /// <summary>Counts and means; a mean is NaN if there is nothing to average.</summary>
        public PairMetrics Metrics(PairState state, string error)
        {
            return new PairMetrics
            {
                Id = _id,
                State = state,
                Decisions = Count,
                Episodes = _episodes,
                MeanReward = _reward / Count,
                SuccessRate = (double)_successes / Count,
                AggregatedReward = _aggregated / Count,
                Accuracy = _stats == null ? double.NaN : _stats.Accuracy(_id),
                Error = error,
            };
        }

        /// <summary>Copies a policy's output, clipped to [-1, 1].</summary>
        /// <<param name="output">The original output.</param>
        /// <param name="clipped">The result, with the length of the profile's actions.</param>
        /// <param name="place">Its purpose, for the message.</param>
        /// <param name="profile">Defines the length of an action.</param>
        /// <exception cref="TauException">The output has the wrong length or a NaN; nothing was copied.</exception>
        internal static void Clip(float[] output, float[] clipped, string place, TauProfile profile)
        {
            if (output.Length != clipped.Length)
            {
                throw new TauException(FormattableString.Invariant(
                    $"Got {output.Length} actions for {place}, but profile `{profile.Name}` has {clipped.Length}; ")
                    + "use a policy of that profile.");
            }
            if (output.Any(float.IsNaN))
            {
                throw new TauException($"Got NaN as an action for {place}; the policy has diverged, train it again.");
            }
            for (var column = 0; column < output.Length; column++)
            {
                clipped[column] = Math.Min(Math.Max(output[column], -1f), 1f);
            }
        }
    }
}
