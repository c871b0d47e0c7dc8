using System;
using Tau.Core;

namespace Tau
{
    /// <summary>Prompts that a model is to answer one after the other, and what becomes of the answers.</summary>
    internal abstract class AnswererJob
    {
        private readonly Action<TauException> _failed;
        private bool _over;

        /// <summary>A job.</summary>
        /// <param name="failed">Gets the mistake that ended the job.</param>
        protected AnswererJob(Action<TauException> failed)
        {
            _failed = failed;
        }

        /// <summary>The next prompt; false: there is none, the job is done.</summary>
        public abstract bool Next(out float[] prompt, out float[] target);

        /// <summary>The model's output for the last prompt.</summary>
        /// <param name="output">One number an action; used again for the next one.</param>
        /// <param name="milliseconds">From asking to answering.</param>
        /// <exception cref="TauException">It cannot be read.</exception>
        public abstract void Take(float[] output, double milliseconds);

        /// <summary>The job ends with a mistake, unless it has ended before.</summary>
        public void Fail(TauException mistake)
        {
            if (!_over)
            {
                _over = true;
                _failed(mistake);
            }
        }

        /// <summary>The job has ended well; to be called before anybody is told.</summary>
        protected void Finish()
        {
            _over = true;
        }
    }
}
