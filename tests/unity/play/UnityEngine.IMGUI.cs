using System;
using System.Collections.Generic;

namespace UnityEngine
{
    /// <summary>What an event of immediate-mode GUI is about.</summary>
    public enum EventType
    {
        /// <summary>A key went down.</summary>
        KeyDown = 4,

        /// <summary>Everything is drawn.</summary>
        Repaint = 7,

        /// <summary>Everything is measured; comes before every other event.</summary>
        Layout = 8,

        /// <summary>Somebody has taken it.</summary>
        Used = 12,
    }

    /// <summary>Keys.</summary>
    public enum KeyCode
    {
        /// <summary>No key: an event with a character.</summary>
        None = 0,

        /// <summary>Return.</summary>
        Return = 13,

        /// <summary>Back-quote.</summary>
        BackQuote = 96,

        /// <summary>Enter beside the digits.</summary>
        KeypadEnter = 271,

        /// <summary>Up.</summary>
        UpArrow = 273,

        /// <summary>Down.</summary>
        DownArrow = 274,

        /// <summary>F1.</summary>
        F1 = 282,
    }

    /// <summary>An event of immediate-mode GUI.</summary>
    public sealed class Event
    {
        /// <summary>The running event.</summary>
        public static Event current { get; internal set; }

        /// <summary>What it is about.</summary>
        public EventType type { get; set; }

        /// <summary>The key; none in an event with a character.</summary>
        public KeyCode keyCode { get; set; }

        /// <summary>The character; none in an event with a key.</summary>
        public char character { get; set; }

        /// <summary>Takes it, so that nobody else does.</summary>
        public void Use()
        {
            type = EventType.Used;
        }
    }

    /// <summary>What is drawn: texts are kept, the rest is not.</summary>
    public static class GUI
    {
        /// <summary>Colour of what follows.</summary>
        public static Color color { get; set; }

        /// <summary>Usual styles.</summary>
        public static GUISkin skin { get; } = new GUISkin();

        /// <summary>Texts that the running event has drawn.</summary>
        internal static List<string> Drawn { get; } = new List<string>();

        /// <summary>Name of the control that keys go to.</summary>
        internal static string Focused { get; set; } = "";

        /// <summary>Draws a text.</summary>
        public static void Label(Rect position, string text, GUIStyle style)
        {
            Drawn.Add(text);
        }

        /// <summary>Fills an area.</summary>
        public static void DrawTexture(Rect position, Texture2D image)
        {
        }

        /// <summary>Names the control that follows.</summary>
        public static void SetNextControlName(string name)
        {
        }

        /// <summary>Keys go to this control from now on.</summary>
        public static void FocusControl(string name)
        {
            Focused = name;
        }

        /// <summary>Name of the control that keys go to.</summary>
        public static string GetNameOfFocusedControl()
        {
            return Focused;
        }
    }

    /// <summary>
    /// Controls that find their places by themselves. A text field takes characters while it has the focus, as an
    /// event of its own for each, which is how Unity sends them.
    /// </summary>
    public static class GUILayout
    {
        /// <summary>Begins an area.</summary>
        public static void BeginArea(Rect screenRect)
        {
        }

        /// <summary>Ends it.</summary>
        public static void EndArea()
        {
        }

        /// <summary>Begins an area that scrolls.</summary>
        public static Vector2 BeginScrollView(Vector2 scrollPosition)
        {
            return scrollPosition;
        }

        /// <summary>Ends it.</summary>
        public static void EndScrollView()
        {
        }

        /// <summary>Draws a text.</summary>
        public static void Label(string text, GUIStyle style)
        {
            GUI.Drawn.Add(text);
        }

        /// <summary>A line to type into; returns what is in it now.</summary>
        public static string TextField(string text, GUIStyle style)
        {
            Event now = Event.current;
            bool isTyped = now.type == EventType.KeyDown && now.character != '\0' && GUI.Focused.Length > 0;
            return isTyped ? text + now.character : text;
        }
    }

    /// <summary>A place on the screen, in pixels.</summary>
    public struct Rect
    {
        /// <summary>A place.</summary>
        public Rect(float x, float y, float width, float height)
        {
            this.x = x;
            this.y = y;
            this.width = width;
            this.height = height;
        }

        /// <summary>From the left.</summary>
        public float x { get; }

        /// <summary>From the top.</summary>
        public float y { get; }

        /// <summary>To the right.</summary>
        public float width { get; }

        /// <summary>Downwards.</summary>
        public float height { get; }
    }

    /// <summary>The state of a text field.</summary>
    public sealed class TextEditor
    {
        /// <summary>What is in it.</summary>
        public string text { get; set; }

        /// <summary>Moves the cursor behind the last character.</summary>
        public void MoveTextEnd()
        {
        }
    }

    /// <summary>Inner things of the GUI.</summary>
    public static class GUIUtility
    {
        /// <summary>The control that keys go to.</summary>
        public static int keyboardControl => 1;

        /// <summary>The state of a control.</summary>
        public static object GetStateObject(Type type, int controlId)
        {
            return Activator.CreateInstance(type);
        }
    }
}
