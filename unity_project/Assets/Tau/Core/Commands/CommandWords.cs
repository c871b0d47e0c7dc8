using System.Collections.Generic;
using System.Text;

namespace Tau.Core
{
    /// <summary>Takes a line apart into words.</summary>
    internal static class CommandWords
    {
        /// <summary>
        /// Words between blanks. A quote, double or single, at the beginning of a word or after "=" holds blanks
        /// together up to its partner; backslashes are plain letters, as in paths.
        /// </summary>
        /// <exception cref="TauException">A quote has no partner.</exception>
        public static IReadOnlyList<string> Split(string line)
        {
            var words = new List<string>();
            var word = new StringBuilder();
            var open = false;
            for (var index = 0; index < line.Length; index++)
            {
                var letter = line[index];
                if (letter == ' ' || letter == '\t')
                {
                    Close(words, word, ref open);
                }
                else if (IsQuote(letter) && (!open || line[index - 1] == '='))
                {
                    var end = line.IndexOf(letter, index + 1);
                    if (end < 0)
                    {
                        throw new TauException($"The quote before `{line.Substring(index + 1)}` is open; close it.");
                    }
                    word.Append(line, index + 1, end - index - 1);
                    open = true;
                    index = end;
                }
                else
                {
                    word.Append(letter);
                    open = true;
                }
            }
            Close(words, word, ref open);
            return words;
        }

        private static bool IsQuote(char letter)
        {
            return letter == '"' || letter == '\'';
        }

        private static void Close(List<string> words, StringBuilder word, ref bool open)
        {
            if (open)
            {
                words.Add(word.ToString());
            }
            word.Clear();
            open = false;
        }
    }
}
