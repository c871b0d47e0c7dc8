using System;

namespace Tau.Core
{
    /// <summary>
    /// The Tau task: rows from which prompts are drawn, targets of their answers, and rewards. One object, shared by
    /// all pairs of a game. Not thread-safe.
    /// </summary>
    public sealed class TauTask
    {
        private readonly TauRules _first;
        private RewardFormula _formula;
        private int _columns;

        /// <summary>A task; the data set is shared, not copied.</summary>
        /// <param name="dataset">The data set, loaded once.</param>
        /// <param name="profile">Defines the targets and the number of actions.</param>
        /// <param name="rules">Null: the defaults.</param>
        /// <exception cref="TauException">The rules do not fit the profile, or the split has no rows.</exception>
        public TauTask(TauDataset dataset, TauProfile profile, TauRules rules = null)
        {
            Dataset = dataset ?? throw new ArgumentNullException(nameof(dataset));
            Profile = profile ?? throw new ArgumentNullException(nameof(profile));
            Targets = dataset.Targets(profile);
            _first = rules ?? new TauRules();
            Follow(_first);
        }

        /// <summary>The data set.</summary>
        public TauDataset Dataset { get; }

        /// <summary>The profile.</summary>
        public TauProfile Profile { get; }

        /// <summary>The current rules.</summary>
        public TauRules Rules { get; private set; }

        /// <summary>Target of each answer of the data set, [answers][actions]; do not change it.</summary>
        public float[][] Targets { get; }

        /// <summary>The rows from which prompts are drawn.</summary>
        public TauSplit Rows { get; private set; }

        /// <summary>Name of the reward formula.</summary>
        public string Formula => Rules.Reward ?? Profile.Reward;

        /// <summary>Uses <paramref name="rules"/> from now on, also for an open decision.</summary>
        /// <exception cref="TauException">
        /// The rules do not fit the profile, or the split has no rows; then nothing has changed.
        /// </exception>
        public void Follow(TauRules rules)
        {
            rules.Check(Profile);
            var rows = rules.Split == "train" ? Dataset.Train : Dataset.Evaluation;
            if (rows.Count == 0)
            {
                throw new TauException(
                    $"The data set {Dataset.Source} has no usable rows in its {rules.Split} split; add some.");
            }
            Rows = rows;
            Rules = rules;
            _formula = RewardFormulas.Get(Formula);
            _columns = rules.Columns == 0 ? Profile.ActionSize : rules.Columns;
        }

        /// <summary>
        /// Uses the original rules, changed by the environment parameters that are set.
        /// </summary>
        /// <param name="parameter">The value of the parameter with this name; null: it is not set.</param>
        /// <exception cref="TauException">A value is invalid; then nothing has changed.</exception>
        public void Update(Func<string, float?> parameter)
        {
            Follow(_first.Updated(parameter));
        }

        /// <summary>The reward of an answer.</summary>
        /// <param name="output">The action, clipped to [-1, 1].</param>
        /// <param name="answer">Position of the right answer in the data set's answers.</param>
        public double Reward(float[] output, int answer)
        {
            return _formula(output, Targets[answer], Rules.Threshold, _columns);
        }

        /// <summary>
        /// The binary success of an answer: every component that counts is within the threshold.
        /// </summary>
        /// <param name="output">The action, clipped to [-1, 1].</param>
        /// <param name="answer">Position of the right answer in the data set's answers.</param>
        public bool Succeeds(float[] output, int answer)
        {
            return RewardFormulas.Binary01(output, Targets[answer], Rules.Threshold, _columns) > 0.0;
        }
    }
}
