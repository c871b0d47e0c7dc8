using System;
using Tau.Core;

namespace Tau
{
    /// <summary>The model's answer to a typed question.</summary>
    public sealed class TauAnswer
    {
        private readonly string _typed;
        private readonly QuestionMatch _match;
        private readonly double _milliseconds;

        /// <summary>An answer.</summary>
        /// <param name="typed">The question as it was typed.</param>
        /// <param name="match">The known question that was shown to the model.</param>
        /// <param name="text">The answer nearest to the model's output.</param>
        /// <param name="milliseconds">Time from question to answer.</param>
        public TauAnswer(string typed, QuestionMatch match, string text, double milliseconds)
        {
            _typed = typed;
            _match = match;
            _milliseconds = milliseconds;
            Text = text;
        }

        /// <summary>The answer.</summary>
        public string Text { get; }

        /// <summary>Question, answer, and whether the data set says the same, for a console.</summary>
        public string ToText()
        {
            string verdict = _match.Answer == Text ? "right" : "wrong, it is " + _match.Answer;
            string answer = FormattableString.Invariant($"{Text}   ({verdict}, {_milliseconds:0.0} ms)");
            return _match.Exact ? answer : FormattableString.Invariant(
                $"`{_typed}` is not a known question, and a game has no text encoder for new ones; ")
                + FormattableString.Invariant($"answered the closest known one, {100.0 * _match.Score:0} % alike:\n")
                + _match.Question + "\n" + answer;
        }
    }
}
