using System;
using Tau.Core;

namespace Tau
{
    /// <summary>One typed question.</summary>
    internal sealed class QuestionJob : AnswererJob
    {
        private readonly TauTask _task;
        private readonly QuestionMatch _match;
        private readonly string _typed;
        private readonly Action<TauAnswer> _answered;
        private bool _shown;

        /// <summary>A question.</summary>
        public QuestionJob(
            TauTask task,
            string typed,
            QuestionMatch match,
            Action<TauAnswer> answered,
            Action<TauException> failed)
            : base(failed)
        {
            _task = task;
            _typed = typed;
            _match = match;
            _answered = answered;
        }

        /// <summary>The question's embedding, once; nobody knows its target.</summary>
        public override bool Next(out float[] prompt, out float[] target)
        {
            prompt = _match.Vector;
            target = new float[_task.Profile.ActionSize];
            bool first = !_shown;
            _shown = true;
            return first;
        }

        /// <summary>Reads the nearest answer out of the output.</summary>
        public override void Take(float[] output, double milliseconds)
        {
            int answer = Decoding.Nearest(output, _task.Targets);
            Finish();
            _answered(new TauAnswer(_typed, _match, _task.Dataset.Answers[answer], milliseconds));
        }
    }
}
