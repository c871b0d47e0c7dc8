using System.Globalization;
using System.Text;

namespace Tau.Core
{
    /// <summary>Writes values in JSON's form (RFC 8259).</summary>
    internal static class JsonText
    {
        /// <summary>A number that reads back as the same double; JSON has no NaN or infinity: null.</summary>
        public static string Of(double value)
        {
            return double.IsNaN(value) || double.IsInfinity(value)
                ? "null"
                : value.ToString("R", CultureInfo.InvariantCulture);
        }

        /// <summary>A whole number.</summary>
        public static string Of(long value)
        {
            return value.ToString(CultureInfo.InvariantCulture);
        }

        /// <summary>A text in quotes, or null.</summary>
        public static string Of(string text)
        {
            if (text == null)
            {
                return "null";
            }
            var result = new StringBuilder("\"");
            foreach (var letter in text)
            {
                if (letter == '"' || letter == '\\')
                {
                    result.Append('\\').Append(letter);
                }
                else if (letter < ' ' || char.IsSurrogate(letter))
                {
                    result.Append("\\u").Append(((int)letter).ToString("x4", CultureInfo.InvariantCulture));
                }
                else
                {
                    result.Append(letter);
                }
            }
            return result.Append('"').ToString();
        }
    }
}
