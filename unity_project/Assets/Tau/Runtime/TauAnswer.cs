using System;
using Tau.Core;

namespace Tau
{
    /// <summary>What the model answered to a typed question.</summary>
    public sealed class TauAnswer
    {
        /// <summary>An answer.</summary>
        /// <param name="typed">The question as it was typed.</param>
        /// <param name="match">The known question that was shown to the model.</param>
        /// <param name="text">The answer nearest to the model's output.</param>
        /// <param name="milliseconds">From asking to answering.</param>
        public TauAnswer(string typed, QuestionMatch match, string text, double milliseconds)
        {
            Typed = typed;
            Match = match ?? throw new ArgumentNullException(nameof(match));
            Text = text;
            Milliseconds = milliseconds;
        }

        /// <summary>The question as it was typed.</summary>
        public string Typed { get; }

        /// <summary>The known question that was shown to the model.</summary>
        public QuestionMatch Match { get; }

        /// <summary>The answer.</summary>
        public string Text { get; }

        /// <summary>From asking to answering, in milliseconds.</summary>
        public double Milliseconds { get; }

        /// <summary>Question, answer, and whether the data set says the same, for a console.</summary>
        public string ToText()
        {
            string answer = FormattableString.Invariant($"{Text}   ({Verdict()}{Milliseconds:0.0} ms)");
            if (Match.Exact)
            {
                return answer;
            }
            return FormattableString.Invariant(
                $"`{Typed}` is not known word for word, and a game has no text encoder for new questions; ")
                + FormattableString.Invariant($"answered the closest known one, {100.0 * Match.Score:0} % alike:\n")
                + Match.Question + "\n" + answer;
        }

        private string Verdict()
        {
            if (Match.Answer == null)
            {
                return "";
            }
            return TextKey.Of(Match.Answer) == TextKey.Of(Text) ? "right, " : "wrong, it is " + Match.Answer + ", ";
        }
    }
}
