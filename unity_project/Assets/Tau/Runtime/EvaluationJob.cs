using System;
using Tau.Core;

namespace Tau
{
    /// <summary>Every held-out row once.</summary>
    internal sealed class EvaluationJob : AnswererJob
    {
        private readonly HeldOutEvaluation _evaluation;
        private readonly Action<HeldOutEvaluation> _done;

        /// <summary>An evaluation.</summary>
        public EvaluationJob(
            HeldOutEvaluation evaluation, Action<HeldOutEvaluation> done, Action<TauException> failed)
            : base(failed)
        {
            _evaluation = evaluation;
            _done = done;
        }

        /// <summary>The next row. A model must not see its target, so that is all zeros.</summary>
        public override bool Next(out float[] prompt, out float[] target)
        {
            bool more = _evaluation.Next(out prompt, out float[] known);
            target = more ? new float[known.Length] : null;
            return more;
        }

        /// <summary>Scores the output; tells the result after the last row.</summary>
        public override void Take(float[] output, double milliseconds)
        {
            _evaluation.Add(output);
            if (_evaluation.Done == _evaluation.Total)
            {
                Finish();
                _done(_evaluation);
            }
        }
    }
}
