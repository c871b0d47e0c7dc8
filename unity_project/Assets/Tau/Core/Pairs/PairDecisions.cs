using System;

namespace Tau.Core
{
    /// <summary>One pair's decisions: prompts are drawn, answers paid and counted, episodes kept.</summary>
    internal sealed class PairDecisions
    {
        private readonly int _id;
        private readonly TauTask _task;
        private readonly RewardWindow _window;
        private readonly TauStats _stats;
        private readonly Episode _episode = new Episode();
        private readonly PairTally _tally = new PairTally();
        private readonly float[] _output;
        private AgentRandom _random;
        private int _answer;

        /// <summary>Nothing is drawn yet. See <see cref="AgentTrainer"/> for the parameters.</summary>
        public PairDecisions(int id, TauTask task, RewardWindow window, TauStats stats)
        {
            _id = id;
            _task = task ?? throw new ArgumentNullException(nameof(task));
            _window = window ?? new RewardWindow();
            _stats = stats;
            _output = new float[task.Profile.ActionSize];
        }

        /// <summary>Answered decisions.</summary>
        public long Count => _tally.Decisions;

        /// <summary>Whether the statistics decode by this task's targets.</summary>
        public bool StatsFit => _stats == null || _stats.Task == _task;

        /// <summary>A copy of the last answer, clipped.</summary>
        public float[] CopyOutput()
        {
            return (float[])_output.Clone();
        }

        /// <summary>Starts the stream of prompts anew.</summary>
        public void Seed(long seed)
        {
            _random = new AgentRandom(seed, _id);
        }

        /// <summary>Begins a new episode.</summary>
        public void BeginEpisode()
        {
            _episode.Begin();
            _window.Clear();
        }

        /// <summary>Draws the next prompt, uniformly with replacement.</summary>
        public void Draw(out float[] prompt, out float[] target)
        {
            var rows = _task.Rows;
            var row = _random.Next(rows.Count);
            _answer = rows.AnswerIndex[row];
            prompt = rows.Prompts[row];
            target = _task.Targets[_answer];
        }

        /// <summary>Clips, pays and counts the answer to the prompt that was drawn last.</summary>
        /// <exception cref="TauException">The answer has the wrong size or is NaN; nothing has changed.</exception>
        public EpisodeEnd Pay(float[] output, out double reward)
        {
            Actions.Clip(output, _output, _id, _task.Profile.Name);
            reward = _task.Reward(_output, _answer);
            var success = _task.Succeeds(_output, _answer);
            var aggregated = _window.Push(success);
            _tally.Add(reward, success, aggregated);
            _stats?.Add(_id, _output, _answer, reward, success, aggregated);
            var end = _episode.Add(reward, _task.Rules);
            if (end != EpisodeEnd.None)
            {
                _window.Clear();
                _tally.AddEpisode();
            }
            return end;
        }

        /// <summary>Counts and means.</summary>
        public PairMetrics Metrics(PairState state, string error)
        {
            var accuracy = _stats == null ? double.NaN : _stats.Accuracy(_id);
            return _tally.Metrics(_id, state, accuracy, error);
        }
    }
}
