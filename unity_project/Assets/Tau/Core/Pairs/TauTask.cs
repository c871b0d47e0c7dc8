using System;

namespace Tau.Core
{
    /// <summary>
    /// The Tau task: rows to draw prompts from, targets of their answers, and what an answer earns. One object, shared
    /// by all pairs of a game. Not thread-safe.
    /// </summary>
    public sealed class TauTask
    {
        private readonly TauRules _first;
        private RewardFormula _formula;
        private int _columns;

        /// <summary>A task; the data set is shared, not copied.</summary>
        /// <param name="dataset">The data set, loaded once.</param>
        /// <param name="profile">Fixes the targets and the number of actions.</param>
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

        /// <summary>The rules played by now.</summary>
        public TauRules Rules { get; private set; }

        /// <summary>Target of each answer of the data set, [answers][actions]; must not be changed.</summary>
        public float[][] Targets { get; }

        /// <summary>The rows that prompts are drawn from.</summary>
        public TauSplit Rows { get; private set; }

        /// <summary>Name of the formula that is paid.</summary>
        public string Formula => Rules.Reward ?? Profile.Reward;

        /// <summary>Plays by <paramref name="rules"/> from now on; an open decision is paid by them already.</summary>
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
        /// Plays by the rules that the task was made with, changed by the environment parameters that are set.
        /// </summary>
        /// <param name="parameter">The value of the parameter with this name; null: it is not set.</param>
        /// <exception cref="TauException">A value means nothing; then nothing has changed.</exception>
        public void Update(Func<string, float?> parameter)
        {
            Follow(_first.Updated(parameter));
        }

        /// <summary>What an answer earns by the rules.</summary>
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
