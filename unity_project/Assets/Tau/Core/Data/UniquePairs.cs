using System.Collections.Generic;

namespace Tau.Core
{
    /// <summary>
    /// Leaves out repeated prompts: a message whose first prompt repeats as a whole, of another only the couple.
    /// Prompts are compared by <see cref="TextKey"/>: the text encoder is uncased, so two prompts that differ in case
    /// only are the same observation, and would leak from training into evaluation.
    /// </summary>
    internal static class UniquePairs
    {
        /// <summary>Pairs whose prompt was not seen before; what is dropped is added to the problems.</summary>
        /// <param name="messages">The messages of one section.</param>
        /// <param name="seen">Keys of prompts seen so far; grows.</param>
        /// <param name="problems">Problems so far; grows.</param>
        /// <param name="training">Keys of all training prompts while evaluation rows are read, else null.</param>
        public static List<TauPair> Of(
            List<TauMessage> messages, HashSet<string> seen, List<Problem> problems, HashSet<string> training)
        {
            var kept = new List<TauPair>();
            var dropped = new List<TauPair>();
            foreach (var message in messages)
            {
                dropped.Clear();
                Split(message, seen, kept, dropped);
                if (dropped.Count > 0)
                {
                    var leak = training != null && dropped.Exists(pair => training.Contains(pair.PromptKey));
                    var where = leak ? "is a training prompt too" : "repeats an earlier prompt";
                    var reason = PythonText.Repr(dropped[0].Prompt) + " " + where;
                    problems.Add(new Problem(message.Section, message.Row, leak ? "leak" : "duplicate", reason));
                }
            }
            return kept;
        }

        private static void Split(TauMessage message, HashSet<string> seen, List<TauPair> kept, List<TauPair> dropped)
        {
            if (seen.Contains(message.Pairs[0].PromptKey))
            {
                dropped.AddRange(message.Pairs);
                return;
            }
            foreach (var pair in message.Pairs)
            {
                (seen.Add(pair.PromptKey) ? kept : dropped).Add(pair);
            }
        }
    }
}
