using System;
using System.Globalization;

namespace Tau.Core
{
    /// <summary>Where and why a text is not JSON: `Expecting value: line 2 column 7 (char 19)`.</summary>
    internal sealed class JsonFault : Exception
    {
        public JsonFault(string what, string text, int position)
            : base(what + ": " + Place(text, position))
        {
        }

        /// <summary>Lines and columns count from 1, characters from 0, all of them in code points.</summary>
        private static string Place(string text, int position)
        {
            int line = 1, column = 1, character = 0;
            for (var index = 0; index < position; index++)
            {
                if (char.IsSurrogatePair(text, index) && index + 1 < position)
                {
                    index++;
                }
                character++;
                column++;
                if (text[index] == '\n')
                {
                    line++;
                    column = 1;
                }
            }
            return string.Format(
                CultureInfo.InvariantCulture, "line {0} column {1} (char {2})", line, column, character);
        }
    }
}
