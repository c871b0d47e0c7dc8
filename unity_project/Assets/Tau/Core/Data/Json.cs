namespace Tau.Core
{
    /// <summary>Reads JSON (RFC 8259) without the help of engine or runtime: neither has a reader everywhere.</summary>
    public static class Json
    {
        /// <summary>
        /// Decodes a JSON text. Of members with the same name the last one counts; NaN, Infinity and -Infinity are
        /// accepted, as Python's reader accepts them.
        /// </summary>
        /// <returns>
        /// Dictionary&lt;string, object&gt;, List&lt;object&gt;, string, double, bool or null.
        /// </returns>
        /// <exception cref="TauException">The text is not JSON; the message has line and column.</exception>
        public static object Parse(string text)
        {
            try
            {
                return new JsonReader(text, false).ReadAll();
            }
            catch (JsonFault fault)
            {
                throw new TauException("The text is not JSON (" + fault.Message + "); correct it there.", fault);
            }
        }
    }
}
