using System;
using System.IO;

namespace Tau.Trainer
{
    /// <summary>Writes files completely or not at all.</summary>
    public static class Whole
    {
        /// <summary>Writes a file under another name, then renames it; its folder is made.</summary>
        /// <param name="write">Writes to the path that it gets.</param>
        /// <exception cref="TrainerException">It cannot be written.</exception>
        public static void Write(string path, Action<string> write)
        {
            // Unity ignores files that end with ~
            string partial = path + ".partial~";
            try
            {
                Directory.CreateDirectory(Path.GetDirectoryName(Path.GetFullPath(path)));
                write(partial);
                if (File.Exists(path))
                {
                    File.Replace(partial, path, null);
                }
                else
                {
                    File.Move(partial, path);
                }
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                throw new TrainerException(
                    path + " cannot be written (" + error.Message.TrimEnd('.') + "): free it, and try again.");
            }
        }
    }
}
