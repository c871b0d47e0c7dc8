using System;
using System.Linq;

namespace Tau.Core
{
    /// <summary>
    /// Shows every held-out row to a policy once and scores its answers: reward by the task's rules, and accuracy, the
    /// share of rows whose nearest training answer is the right one. Both are shown with the results of policies that
    /// ignore the prompt, because reward is not accuracy. Not thread-safe.
    /// </summary>
    public sealed class HeldOutEvaluation
    {
        private readonly TauTask _task;
        private readonly TauSplit _rows;
        private readonly float[] _output;
        private double _reward;
        private int _right;

        /// <summary>A new evaluation.</summary>
        /// <exception cref="TauException">The data set has no held-out rows.</exception>
        public HeldOutEvaluation(TauTask task)
        {
            _task = task ?? throw new ArgumentNullException(nameof(task));
            _rows = task.Dataset.Evaluation;
            if (_rows.Count == 0)
            {
                throw new TauException(
                    $"The data set {task.Dataset.Source} has no usable evaluation rows; add some to evaluate.");
            }
            _output = new float[task.Profile.ActionSize];
            ZerosReward = _rows.AnswerIndex.Average(answer => task.Reward(_output, answer));
            var majority = task.Dataset.Train.AnswerIndex.GroupBy(answer => answer)
                .OrderByDescending(group => group.Count()).ThenBy(group => group.Key).First().Key;
            MajorityAccuracy = _rows.AnswerIndex.Average(answer => answer == majority ? 1.0 : 0.0);
        }

        /// <summary>Number of answered rows.</summary>
        public int Done { get; private set; }

        /// <summary>Held-out rows.</summary>
        public int Total => _rows.Count;

        /// <summary>Share of answered rows whose decoded answer is right, 0 to 1; NaN before the first.</summary>
        public double Accuracy => (double)_right / Done;

        /// <summary>Mean reward of answered rows; NaN before the first.</summary>
        public double MeanReward => _reward / Done;

        /// <summary>Mean reward of a policy that always outputs zeros, over all held-out rows.</summary>
        public double ZerosReward { get; }

        /// <summary>Accuracy of a policy that always gives the answer most frequent in training.</summary>
        public double MajorityAccuracy { get; }

        /// <summary>The prompt of the next row for <see cref="Add"/>; null if all are answered.</summary>
        public float[] Next()
        {
            return Done < Total ? _rows.Prompts[Done] : null;
        }

        /// <summary>The policy's deterministic action for the next row; clipped to [-1, 1].</summary>
        /// <exception cref="TauException">It has the wrong size or is NaN; the row stays open.</exception>
        /// <exception cref="InvalidOperationException">All rows are answered.</exception>
        public void Add(float[] output)
        {
            if (Done == Total)
            {
                throw new InvalidOperationException("all rows are answered");
            }
            PairDecisions.Clip(output, _output, FormattableString.Invariant($"held-out row {Done + 1}"), _task.Profile);
            var answer = _rows.AnswerIndex[Done];
            _reward += _task.Reward(_output, answer);
            _right += Decoding.Nearest(_output, _task.Targets, _task.Dataset.TrainingAnswers) == answer ? 1 : 0;
            Done++;
        }

        /// <summary>The result in two lines for a console.</summary>
        public string ToText()
        {
            return FormattableString.Invariant($"held-out rows: {Done} of {Total}, right {Share(Accuracy)}, ")
                + $"mean reward {Reward(MeanReward)} ({_task.Formula})\n"
                + $"without looking: right {Share(MajorityAccuracy)} (most frequent answer), "
                + $"mean reward {Reward(ZerosReward)} (zeros)";
        }

        private static string Share(double value)
        {
            return CentralReport.Text(value, "0.0 %");
        }

        private static string Reward(double value)
        {
            return CentralReport.Text(value, "+0.000;-0.000;0.000");
        }
    }
}
