using System;
using System.Globalization;
using System.Linq;

namespace Tau.Core
{
    /// <summary>
    /// Shows every held-out row to a policy once and scores its answers: reward by the task's rules, and accuracy, the
    /// share of rows whose nearest training answer is the right one. Both stand beside what policies get that do not
    /// look at the prompt, since reward is not accuracy. Not thread-safe.
    /// </summary>
    public sealed class HeldOutEvaluation
    {
        private readonly TauTask _task;
        private readonly TauSplit _rows;
        private readonly float[][] _known;
        private readonly float[] _output;
        private double _reward;
        private int _right;
        private bool _open;

        /// <summary>An evaluation that has shown nothing yet.</summary>
        /// <exception cref="TauException">The data set has no held-out rows.</exception>
        public HeldOutEvaluation(TauTask task)
        {
            _task = task ?? throw new ArgumentNullException(nameof(task));
            _rows = task.Dataset.Evaluation;
            if (_rows.Count == 0)
            {
                throw new TauException(
                    $"The data set {task.Dataset.Source} has no usable evaluation rows; "
                    + "add some to evaluate a policy.");
            }
            _known = task.Targets.Take(task.Dataset.TrainingAnswers).ToArray();
            _output = new float[task.Profile.ActionSize];
            ZerosReward = MeanOfZeros();
            MajorityAccuracy = ShareOfMajority();
        }

        /// <summary>Rows that are answered.</summary>
        public int Done { get; private set; }

        /// <summary>Held-out rows.</summary>
        public int Total => _rows.Count;

        /// <summary>Share of answered rows whose decoded answer is right, 0 to 1; NaN before the first.</summary>
        public double Accuracy => Done > 0 ? (double)_right / Done : double.NaN;

        /// <summary>Mean reward of answered rows; NaN before the first.</summary>
        public double MeanReward => Done > 0 ? _reward / Done : double.NaN;

        /// <summary>Mean reward of a policy that always outputs zeros, over all held-out rows.</summary>
        public double ZerosReward { get; }

        /// <summary>Accuracy of a policy that always gives the answer most frequent in training.</summary>
        public double MajorityAccuracy { get; }

        /// <summary>The next row, to be answered by <see cref="Add"/>; false: all are answered.</summary>
        /// <param name="prompt">The prompt's embedding; must not be changed.</param>
        /// <param name="target">The right answer's target; must not be changed.</param>
        /// <exception cref="InvalidOperationException">The last row is not answered yet.</exception>
        public bool Next(out float[] prompt, out float[] target)
        {
            if (_open)
            {
                throw new InvalidOperationException("the last row is not answered yet");
            }
            _open = Done < Total;
            prompt = _open ? _rows.Prompts[Done] : null;
            target = _open ? _task.Targets[_rows.AnswerIndex[Done]] : null;
            return _open;
        }

        /// <summary>The policy's deterministic action for the row shown last; clipped to [-1, 1].</summary>
        /// <exception cref="TauException">It has the wrong size or is not finite; the row stays open.</exception>
        /// <exception cref="InvalidOperationException">No row is open.</exception>
        public void Add(float[] output)
        {
            if (!_open)
            {
                throw new InvalidOperationException("no row waits for an answer");
            }
            Check(output ?? throw new ArgumentNullException(nameof(output)));
            Actions.Clip(output, _output, 0, _task.Profile.Name);
            var answer = _rows.AnswerIndex[Done];
            _reward += _task.Reward(_output, answer);
            _right += Decoding.Nearest(_output, _known) == answer ? 1 : 0;
            Done++;
            _open = false;
        }

        /// <summary>The result in two lines for a console.</summary>
        public string ToText()
        {
            var formula = _task.Rules.Reward ?? _task.Profile.Reward;
            return FormattableString.Invariant(
                $"held-out rows: {Done} of {Total}, right {Text(Accuracy, "0.0 %")}, ")
                + $"mean reward {Text(MeanReward, "+0.000;-0.000;0.000")} ({formula})\n"
                + $"without looking: right {Text(MajorityAccuracy, "0.0 %")} (most frequent answer), "
                + $"mean reward {Text(ZerosReward, "+0.000;-0.000;0.000")} (zeros)";
        }

        private void Check(float[] output)
        {
            if (output.Any(value => float.IsNaN(value) || float.IsInfinity(value)))
            {
                throw new TauException(FormattableString.Invariant(
                    $"The policy's action for evaluation row {_rows.Row[Done]} is not finite; ")
                    + "the policy cannot be evaluated.");
            }
        }

        private double MeanOfZeros()
        {
            var zeros = new float[_task.Profile.ActionSize];
            return _rows.AnswerIndex.Average(answer => _task.Reward(zeros, answer));
        }

        private double ShareOfMajority()
        {
            var counts = new int[_known.Length];
            foreach (var answer in _task.Dataset.Train.AnswerIndex)
            {
                counts[answer]++;
            }
            var majority = Array.IndexOf(counts, counts.Max());
            return _rows.AnswerIndex.Count(answer => answer == majority) / (double)_rows.Count;
        }

        private static string Text(double value, string form)
        {
            return double.IsNaN(value) ? "-" : value.ToString(form, CultureInfo.InvariantCulture);
        }
    }
}
