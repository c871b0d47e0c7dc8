using System.Collections.Generic;
using System.Text;

namespace Tau.Core
{
    /// <summary>What identifies a text: the text encoder sees no difference beyond it either.</summary>
    public static class TextKey
    {
        /// <summary>
        /// Lower case, blanks collapsed to one space and removed at both ends. Letters and blanks are Unicode's and
        /// depend neither on the culture nor on the runtime.
        /// </summary>
        public static string Of(string text)
        {
            var lower = LowerCase.Of(text);
            var key = new StringBuilder(lower.Length);
            var gap = false;
            foreach (var letter in lower)
            {
                if (IsBlank(letter))
                {
                    gap = key.Length > 0;
                    continue;
                }
                if (gap)
                {
                    key.Append(' ');
                    gap = false;
                }
                key.Append(letter);
            }
            return key.ToString();
        }

        /// <summary>The text without blanks at both ends.</summary>
        internal static string Strip(string text)
        {
            int start = 0, end = text.Length;
            while (start < end && IsBlank(text[start]))
            {
                start++;
            }
            while (end > start && IsBlank(text[end - 1]))
            {
                end--;
            }
            return text.Substring(start, end - start);
        }

        /// <summary>Orders texts by code point, which is not the order of UTF-16 units.</summary>
        internal static int Compare(string left, string right)
        {
            var length = System.Math.Min(left.Length, right.Length);
            for (var index = 0; index < length; index++)
            {
                if (left[index] != right[index])
                {
                    return CodePoint(left, index).CompareTo(CodePoint(right, index));
                }
            }
            return left.Length.CompareTo(right.Length);
        }

        /// <summary>An order for collections, see <see cref="Compare"/>.</summary>
        internal static IComparer<string> Order { get; } = Comparer<string>.Create(Compare);

        /// <summary>The code point that the unit at <paramref name="index"/> belongs to.</summary>
        private static int CodePoint(string text, int index)
        {
            if (index > 0 && char.IsSurrogatePair(text, index - 1))
            {
                return char.ConvertToUtf32(text, index - 1);
            }
            return index + 1 < text.Length && char.IsSurrogatePair(text, index)
                ? char.ConvertToUtf32(text, index)
                : text[index];
        }

        /// <summary>Unicode's white space and the four separators of ASCII (28 to 31).</summary>
        private static bool IsBlank(char letter)
        {
            return char.IsWhiteSpace(letter) || (letter >= '\u001C' && letter <= '\u001F');
        }
    }
}
